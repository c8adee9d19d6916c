//! Headers that a job may have for its call.

use std::collections::BTreeMap;

use axum::http::header::{HeaderName, HeaderValue};

/// The most headers of a job.
pub const MOST_HEADERS: usize = 16;

/// The longest name and the longest value, in bytes.
pub const MOST_NAME: usize = 64;
pub const MOST_VALUE: usize = 1024;

/// Those of the connection, and those that the service sets itself.
const OWN: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];
const OWN_PREFIXES: [&str; 4] = ["delay-queue-", "proxy-", "webhook-", "x-forwarded-"];

/// Reads the headers of a job. An error names the header and what is allowed.
pub fn parse(given: &BTreeMap<String, String>) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    if given.len() > MOST_HEADERS {
        return Err(format!(
            "there are {}: at most {MOST_HEADERS} are allowed",
            given.len()
        ));
    }
    let mut headers = Vec::with_capacity(given.len());
    for (name, value) in given {
        let lower = name.to_ascii_lowercase();
        let header =
            HeaderName::try_from(&lower).map_err(|_| format!("{name:?} is no name of a header"))?;
        if OWN.contains(&&*lower) || OWN_PREFIXES.iter().any(|prefix| lower.starts_with(prefix)) {
            return Err(format!("{name:?} is set by the service itself"));
        }
        if headers.iter().any(|(known, _)| *known == header) {
            return Err(format!("{name:?} stands twice"));
        }
        let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let value = HeaderValue::try_from(value)
            .ok()
            .filter(|value| plain && value.len() <= MOST_VALUE)
            .ok_or_else(|| {
                format!("the value of {name:?} must be printable ASCII of up to {MOST_VALUE} bytes")
            })?;
        headers.push((header, value));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(pairs: &[(&str, &str)]) -> Result<usize, String> {
        let given = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        parse(&given.collect()).map(|headers| headers.len())
    }

    #[test]
    fn headers_are_read_within_limits() {
        assert_eq!(parsed(&[]), Ok(0));
        assert_eq!(
            parsed(&[
                ("Authorization", "Bearer x"),
                ("X-Tenant", "7"),
                ("content-type", "text/plain")
            ]),
            Ok(3)
        );
        let long = "x".repeat(1025);
        for (pairs, words) in [
            (&[("Host", "evil")][..], "set by the service"),
            (&[("webhook-signature", "v1,x")], "set by the service"),
            (&[("Delay-Queue-Id", "x")], "set by the service"),
            (&[("Transfer-Encoding", "chunked")], "set by the service"),
            (&[("a b", "x")], "no name of a header"),
            (&[("", "x")], "no name of a header"),
            (&[("a", "x\r\nb: y")], "printable ASCII"),
            (&[("a", "ü")], "printable ASCII"),
            (&[("a", &long)], "up to 1024"),
            (&[("A", "1"), ("a", "2")], "stands twice"),
        ] {
            let problem = parsed(pairs).expect_err(words);
            assert!(problem.contains(words), "{pairs:?}: {problem}");
        }
        let many: Vec<String> = (0..17).map(|number| format!("h{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
        assert!(parsed(&many).unwrap_err().contains("at most 16"));
    }
}
