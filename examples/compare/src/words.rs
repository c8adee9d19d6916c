//! Numbers as people write them.

/// A count: 950, 1 k, 65.5 k, 10 M.
pub(crate) fn count(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e3 => (v / 1e3, " k"),
        v => (v, ""),
    };
    format!("{}{unit}", significant(scaled))
}

/// Three significant digits, without an exponent; thousands apart.
pub(crate) fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 {
            "0".into()
        } else {
            "–".into()
        };
    }
    let digits = value.abs().log10().floor() as i32;
    let step = 10_f64.powi(digits - 2);
    let rounded = (value / step).round() * step;
    if rounded.abs() >= 1000.0 {
        return thousands(rounded.round() as i64);
    }
    let places = (2 - digits).clamp(0, 6) as usize;
    let text = format!("{rounded:.places$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// A power of two to the last digit, others roughly.
pub(crate) fn size(value: f64) -> String {
    if value >= 1.0 && value.log2().fract() == 0.0 {
        return thousands(value as i64);
    }
    significant(value)
}

/// 12 345, with spaces that do not break.
fn thousands(value: i64) -> String {
    let digits = value.abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    if value < 0 {
        format!("−{text}")
    } else {
        text
    }
}

/// Turns of the wheel: 1/100, 0.3, 10 000.
pub(crate) fn turns(value: f64) -> String {
    let parts = (1.0 / value).round();
    if value < 0.05 {
        return format!("1/{parts}");
    }
    significant(value)
}

/// The share that is cancelled if one in `value` fires: 0 %, 90 %, 99.9 %.
pub(crate) fn cancelled_share(value: f64) -> String {
    let percent = 100.0 * (1.0 - 1.0 / value);
    // As many places as the share that fires needs to be told from none.
    let places = (value.log10().floor() as usize).min(3);
    let mut text = format!("{percent:.places$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    format!("{text} %")
}

/// "a, b and c".
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// "2 to 3 %", or "2 %".
pub(crate) fn percent_range(least: f64, most: f64) -> String {
    let [least, most] = [least, most].map(|percent| {
        if percent < 0.05 {
            return "0".to_owned();
        }
        let places = usize::from(percent < 0.95);
        format!("{percent:.places$}")
    });
    if least == most {
        return format!("{least} %");
    }
    format!("{least} to {most} %")
}

#[cfg(test)]
mod tests {
    use super::{cancelled_share, count, list, percent_range, significant, size, turns};

    #[test]
    fn numbers_are_short_and_plain() {
        assert_eq!(significant(0.0), "0");
        assert_eq!(significant(0.012_34), "0.0123");
        assert_eq!(significant(123.4), "123");
        assert_eq!(significant(99.96), "100");
        assert_eq!(significant(1.0), "1");
        assert_eq!(significant(12_345.0), "12\u{a0}300");
        assert_eq!(significant(1_234_567.0), "1\u{a0}230\u{a0}000");
        assert_eq!(significant(100.0), "100");
    }

    #[test]
    fn axes_read_as_they_are_spoken() {
        assert_eq!(count(1_000.0), "1 k");
        assert_eq!(count(65_536.0), "65.5 k");
        assert_eq!(count(1e7), "10 M");
        assert_eq!(count(100.0), "100");
        assert_eq!(turns(0.01), "1/100");
        assert_eq!(turns(0.0316), "1/32");
        assert_eq!(turns(10_000.0), "10\u{a0}000");
        assert_eq!(cancelled_share(1.0), "0 %");
        assert_eq!(cancelled_share(10.0), "90 %");
        assert_eq!(cancelled_share(16.7), "94 %");
        assert_eq!(cancelled_share(1000.0), "99.9 %");
        assert_eq!(size(4096.0), "4\u{a0}096");
        assert_eq!(size(1163.2), "1\u{a0}160");
        assert_eq!(percent_range(2.2, 12.7), "2 to 13 %");
        assert_eq!(percent_range(2.2, 2.4), "2 %");
        assert_eq!(percent_range(0.52, 0.0), "0.5 to 0 %");
    }

    #[test]
    fn lists_have_an_and() {
        let items = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(list(&items), "a, b and c");
        assert_eq!(list(&items[..1]), "a");
    }
}
