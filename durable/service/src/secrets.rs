//! Tokens and signing keys, read from files.
//!
//! A file has a secret a line; empty lines and those that begin with `#` are left out. Several secrets at a time are how one is replaced by another: add the new
//! one, move everybody over, remove the old one. SIGHUP has the files read again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;
use ring::rand::SystemRandom;

/// The shortest and the longest token, in characters.
const TOKEN: std::ops::RangeInclusive<usize> = 16..=512;

/// The shortest and the longest signing key, in bytes: those of Standard Webhooks.
const KEY: std::ops::RangeInclusive<usize> = 24..=64;

/// The beginning of a signing key.
const KEY_PREFIX: &str = "whsec_";

/// The lines of a file that are secrets, with their numbers.
fn lines(path: &Path) -> Result<Vec<(usize, String)>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{}: it cannot be read: {error}", path.display()))?;
    let found: Vec<_> = text
        .lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line.trim().to_owned()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    if found.is_empty() {
        return Err(format!("{}: there is nothing in it", path.display()));
    }
    Ok(found)
}

/// Something that is read from files, and again at SIGHUP.
#[derive(Debug)]
pub struct Reloaded<T> {
    files: Vec<PathBuf>,
    load: fn(&[PathBuf]) -> Result<T, String>,
    current: RwLock<Arc<T>>,
}

impl<T> Reloaded<T> {
    pub fn open(
        files: &[PathBuf],
        load: fn(&[PathBuf]) -> Result<T, String>,
    ) -> Result<Reloaded<T>, String> {
        Ok(Reloaded {
            files: files.to_vec(),
            load,
            current: RwLock::new(Arc::new(load(files)?)),
        })
    }

    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again. After an error the old secrets stay.
    pub fn reload(&self) -> Result<(), String> {
        let new = Arc::new((self.load)(&self.files)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

/// The tokens that open the service. Only their digests under a random key are kept, and these are compared in constant time.
pub struct Tokens {
    key: hmac::Key,
    digests: Vec<hmac::Tag>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.digests.len())
    }
}

impl Tokens {
    pub fn load(files: &[PathBuf]) -> Result<Tokens, String> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| "the system has no random numbers".to_owned())?;
        let mut digests = Vec::new();
        for file in files {
            for (number, token) in lines(file)? {
                let graphic = token.bytes().all(|byte| byte.is_ascii_graphic());
                if !TOKEN.contains(&token.len()) || !graphic {
                    // Not the token itself: this is printed.
                    return Err(format!(
                        "{} line {number}: a token must have {} to {} printable ASCII characters, without blanks",
                        file.display(),
                        TOKEN.start(),
                        TOKEN.end()
                    ));
                }
                digests.push(hmac::sign(&key, token.as_bytes()));
            }
        }
        Ok(Tokens { key, digests })
    }

    /// Without a token everybody is let in.
    pub fn required(&self) -> bool {
        !self.digests.is_empty()
    }

    /// Is it one of the tokens? All are compared, whichever it is.
    pub fn admit(&self, token: &str) -> bool {
        self.digests.iter().fold(false, |found, digest| {
            let same = hmac::verify(&self.key, token.as_bytes(), digest.as_ref()).is_ok();
            found | same
        })
    }
}

/// The keys that calls are signed with.
pub struct SigningKeys(Vec<hmac::Key>);

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} signing keys", self.0.len())
    }
}

impl SigningKeys {
    pub fn load(files: &[PathBuf]) -> Result<SigningKeys, String> {
        let mut keys = Vec::new();
        for file in files {
            for (number, line) in lines(file)? {
                let bytes = line
                    .strip_prefix(KEY_PREFIX)
                    .and_then(|text| BASE64.decode(text).ok())
                    .filter(|bytes| KEY.contains(&bytes.len()))
                    .ok_or_else(|| {
                        format!(
                            "{} line {number}: a signing key must be {KEY_PREFIX} and {} to {} bytes in base64",
                            file.display(),
                            KEY.start(),
                            KEY.end()
                        )
                    })?;
                keys.push(hmac::Key::new(hmac::HMAC_SHA256, &bytes));
            }
        }
        Ok(SigningKeys(keys))
    }

    /// The value of `webhook-signature`: one signature for each key. `None` without keys.
    pub fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> Option<String> {
        let signatures: Vec<String> = self
            .0
            .iter()
            .map(|key| {
                let mut context = hmac::Context::with_key(key);
                context.update(format!("{id}.{timestamp}.").as_bytes());
                context.update(body);
                format!("v1,{}", BASE64.encode(context.sign()))
            })
            .collect();
        (!signatures.is_empty()).then(|| signatures.join(" "))
    }
}

/// Bytes that nobody can guess, as hexadecimal digits.
pub fn random_hex<const N: usize>() -> String {
    use ring::rand::SecureRandom as _;
    use std::fmt::Write as _;

    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system has random numbers: it had some at the start");
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> PathBuf {
        let name = format!("delay-queue-secret-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn each_of_several_tokens_is_admitted_and_nothing_else() {
        let one = file(
            "one",
            "# a remark\n\n  first-token-0123456789  \nsecond-token-0123456789\n",
        );
        let other = file("other", "third-token-0123456789\n");
        let tokens = Tokens::load(&[one.clone(), other.clone()]).unwrap();
        assert!(tokens.required());
        for token in [
            "first-token-0123456789",
            "second-token-0123456789",
            "third-token-0123456789",
        ] {
            assert!(tokens.admit(token), "{token}");
        }
        for token in [
            "",
            "first",
            "first-token-012345678",
            "first-token-01234567890",
            "# a remark",
        ] {
            assert!(!tokens.admit(token), "{token}");
        }
        assert!(!format!("{tokens:?}").contains("first"));
        assert!(!Tokens::load(&[]).unwrap().required());
        std::fs::remove_file(one).unwrap();
        std::fs::remove_file(other).unwrap();
    }

    #[test]
    fn a_bad_secret_is_named_by_its_line_and_not_shown() {
        for (text, words) in [
            ("", "nothing in it"),
            ("# only a remark\n", "nothing in it"),
            (
                "good-token-0123456789\nshort\n",
                "line 2: a token must have 16 to 512",
            ),
            ("a token with blanks in it\n", "line 1"),
        ] {
            let path = file("bad", text);
            let problem = Tokens::load(std::slice::from_ref(&path)).unwrap_err();
            assert!(problem.contains(words), "{problem}");
            assert!(!problem.contains("short"), "{problem}");
        }
        for text in [
            "whsec_AAAA\n",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n",
            "whsec_*\n",
        ] {
            let path = file("bad-key", text);
            let problem = SigningKeys::load(std::slice::from_ref(&path)).unwrap_err();
            assert!(
                problem.contains("line 1: a signing key must be whsec_"),
                "{problem}"
            );
        }
        assert!(
            Tokens::load(&["/no/such/file".into()])
                .unwrap_err()
                .contains("/no/such/file")
        );
    }

    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        // The example of the specification's own libraries.
        let path = file("key", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
        let keys = SigningKeys::load(std::slice::from_ref(&path)).unwrap();
        let signed = keys.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(
            signed.as_deref(),
            Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        );
        std::fs::write(
            &path,
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nwhsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n",
        )
        .unwrap();
        let keys = SigningKeys::load(std::slice::from_ref(&path)).unwrap();
        let signed = keys.sign("a", 1, b"").unwrap();
        assert_eq!(signed.matches("v1,").count(), 2);
        assert_eq!(SigningKeys::load(&[]).unwrap().sign("a", 1, b""), None);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_is_read_again_and_a_bad_one_changes_nothing() {
        let path = file("again", "first-token-0123456789\n");
        let tokens = Reloaded::open(std::slice::from_ref(&path), Tokens::load).unwrap();
        std::fs::write(&path, "second-token-0123456789\n").unwrap();
        assert!(tokens.get().admit("first-token-0123456789"));
        tokens.reload().unwrap();
        assert!(!tokens.get().admit("first-token-0123456789"));
        assert!(tokens.get().admit("second-token-0123456789"));
        std::fs::write(&path, "short\n").unwrap();
        tokens.reload().unwrap_err();
        assert!(tokens.get().admit("second-token-0123456789"));
        std::fs::remove_file(path).unwrap();
    }
}
