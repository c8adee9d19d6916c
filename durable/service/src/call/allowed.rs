//! Which addresses may be called.
//!
//! Whoever can post a job makes this program send requests. So nothing may be called but what `--allow-host` and `--allow-net` name, and of that only public
//! addresses: loopback, private, link-local and metadata addresses have to be named as addresses, also when an allowed name leads there. The service's own address has
//! to be named with its port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};

use axum::http::Uri;

/// The longest address, in bytes.
pub const MOST_ADDRESS: usize = 2000;

/// What an option allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    what: What,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// Every public host.
    Any,
    Name(String),
    /// Names that end with this, which begins with a dot.
    Suffix(String),
    Address(IpAddr),
    Net(IpAddr, u8),
}

impl Rule {
    /// Reads the value of `--allow-host`.
    pub fn host(text: &str) -> Result<Rule, String> {
        let bad = || {
            format!(
                "is {text:?}: it must be a name, *.NAME, * or an address, perhaps with :PORT, without a scheme"
            )
        };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Rule {
                what: What::Address(address.ip().to_canonical()),
                port: Some(address.port()),
            });
        }
        if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok(Rule {
                what: What::Address(ip.to_canonical()),
                port: None,
            });
        }
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        let name = normal(name);
        let bare = name.strip_prefix("*.").unwrap_or(&name);
        let valid = name == "*"
            || (!bare.is_empty()
                && bare
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)));
        if !valid {
            return Err(bad());
        }
        let what = match name.strip_prefix('*') {
            Some("") => What::Any,
            Some(suffix) => What::Suffix(suffix.to_owned()),
            None => What::Name(name),
        };
        Ok(Rule { what, port })
    }

    /// Reads the value of `--allow-net`.
    pub fn net(text: &str) -> Result<Rule, String> {
        text.split_once('/')
            .and_then(|(ip, bits)| Some((ip.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?)))
            .filter(|(ip, bits)| *bits <= if ip.is_ipv4() { 32 } else { 128 })
            .map(|(ip, bits)| Rule {
                what: What::Net(ip, bits),
                port: None,
            })
            .ok_or_else(|| {
                format!("is {text:?}: it must be an address and a number of bits, like 10.0.0.0/8")
            })
    }

    /// Does it name this address itself?
    fn names_address(&self, ip: IpAddr, port: u16) -> bool {
        let same = match self.what {
            What::Address(named) => named == ip,
            What::Net(net, bits) => within(ip, net, bits),
            _ => false,
        };
        same && self.port.is_none_or(|named| named == port)
    }

    fn names_name(&self, name: &str, port: u16) -> bool {
        let same = match &self.what {
            What::Any => true,
            What::Name(named) => named == name,
            What::Suffix(suffix) => name.ends_with(suffix.as_str()),
            _ => false,
        };
        same && self.port.is_none_or(|named| named == port)
    }
}

fn within(ip: IpAddr, net: IpAddr, bits: u8) -> bool {
    match (ip, net) {
        (IpAddr::V4(ip), IpAddr::V4(net)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            (ip.to_bits() ^ net.to_bits()) & mask == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(net)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            (ip.to_bits() ^ net.to_bits()) & mask == 0
        }
        _ => false,
    }
}

/// A name in lower case, without the dot of the root.
fn normal(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// What keeps an address from being called by everybody. `None`: it is public.
fn special(ip: IpAddr) -> Option<&'static str> {
    let net = |text: &str| matches!(Rule::net(text), Ok(Rule { what: What::Net(net, bits), .. }) if within(ip, net, bits));
    let found = [
        (
            "a metadata",
            &[
                "169.254.169.254/32",
                "fd00:ec2::254/128",
                "100.100.100.200/32",
                "168.63.129.16/32",
            ][..],
        ),
        ("a loopback", &["127.0.0.0/8", "::1/128"]),
        ("an unspecified", &["0.0.0.0/8", "::/128"]),
        (
            "a private",
            &[
                "10.0.0.0/8",
                "172.16.0.0/12",
                "192.168.0.0/16",
                "100.64.0.0/10",
                "fc00::/7",
                "fec0::/10",
            ],
        ),
        ("a link-local", &["169.254.0.0/16", "fe80::/10"]),
        ("a multicast", &["224.0.0.0/4", "ff00::/8"]),
        (
            "a reserved",
            &[
                "192.0.0.0/24",
                "192.0.2.0/24",
                "198.18.0.0/15",
                "198.51.100.0/24",
                "203.0.113.0/24",
                "240.0.0.0/4",
                "2001::/32",
                "2001:db8::/32",
                "3fff::/20",
            ],
        ),
    ]
    .into_iter()
    .find(|(_, nets)| nets.iter().any(|text| net(text)))
    .map(|(class, _)| class);
    found.or_else(|| match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(ip) => match embedded(ip) {
            Some(ip) => special(IpAddr::V4(ip)),
            // Public ones are those in 2000::/3.
            None => (ip.segments()[0] >> 13 != 1).then_some("a reserved"),
        },
    })
}

/// The address of version 4 inside one of version 6: NAT64, 6to4.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let part = ip.segments();
    let from = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match part[..6] {
        [0x64, 0xff9b, 0, 0, 0, 0] => Some(from(part[6], part[7])),
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

/// The host of an address to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(ip) => ip.fmt(f),
        }
    }
}

/// An address that may be called, as far as can be told before its name is resolved.
#[derive(Debug, Clone)]
pub struct Target {
    pub uri: Uri,
    pub https: bool,
    pub host: Host,
    pub port: u16,
}

/// Why an address may not be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is none that could be called.
    Malformed(String),
    /// It is none that the options allow.
    Forbidden(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Refusal::Malformed(text) | Refusal::Forbidden(text)) = self;
        f.write_str(text)
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Refusal {
        Refusal::Malformed(text)
    }
}

/// What may be called.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    rules: Arc<Vec<Rule>>,
    /// The address that the service listens on, once it does.
    own: Arc<OnceLock<SocketAddr>>,
    /// Hosts and ports under which a proxy offers the service.
    origins: Arc<Vec<(String, u16)>>,
}

impl Allowed {
    pub fn new(rules: Vec<Rule>, origins: &[String]) -> Allowed {
        let origins = origins.iter().filter_map(|origin| {
            let uri: Uri = origin.parse().ok()?;
            let port = if uri.scheme_str() == Some("https") {
                443
            } else {
                80
            };
            Some((normal(uri.host()?), uri.port_u16().unwrap_or(port)))
        });
        Allowed {
            rules: Arc::new(rules),
            own: Arc::default(),
            origins: Arc::new(origins.collect()),
        }
    }

    /// Tells the address that the service listens on, which is not to be called.
    pub fn listens_on(&self, address: SocketAddr) {
        let _ = self.own.set(address);
    }

    /// Looks at the text of an address. An error says what is wrong with it.
    pub fn check(&self, address: &str) -> Result<Target, Refusal> {
        if address.len() > MOST_ADDRESS {
            let length = address.len();
            return Err(format!("has {length} bytes: it must have at most {MOST_ADDRESS}").into());
        }
        // Those of RFC 3986, without the fragment, which is nothing to a server.
        let known =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=%".contains(&byte);
        if let Some(other) = address.chars().find(|c| !c.is_ascii() || !known(*c as u8)) {
            return Err(format!("has {other:?}: it must be percent-encoded").into());
        }
        let uri: Uri = address
            .parse()
            .map_err(|error| format!("is no address: {error}"))?;
        let https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("must begin with http:// or https://".to_owned().into()),
        };
        let authority = uri.authority().ok_or_else(|| "has no host".to_owned())?;
        if authority.as_str().contains('@') {
            return Err("must not have a user in it".to_owned().into());
        }
        let after = &authority.as_str()[authority.host().len()..];
        let port = match after.strip_prefix(':') {
            None if https => 443,
            None => 80,
            Some(digits) => digits.parse().unwrap_or(0),
        };
        if port == 0 {
            return Err("has a port that is no number from 1 to 65535"
                .to_owned()
                .into());
        }
        let name = normal(authority.host());
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        if bare.is_empty() {
            return Err("has no host".to_owned().into());
        }
        let host = if let Ok(ip) = bare.parse::<IpAddr>() {
            let ip = ip.to_canonical();
            self.check_address(None, ip, port)
                .map_err(Refusal::Forbidden)?;
            Host::Address(ip)
        } else {
            if !bare
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            {
                return Err(format!("has the host {bare:?}, which is no name").into());
            }
            self.check_name(bare, port).map_err(Refusal::Forbidden)?;
            Host::Name(bare.to_owned())
        };
        Ok(Target {
            uri,
            https,
            host,
            port,
        })
    }

    fn check_name(&self, name: &str, port: u16) -> Result<(), String> {
        let own = |(host, own_port): &(String, u16)| host == name && *own_port == port;
        if self.origins.iter().any(own) {
            return Err(format!("host {name:?} is not allowed: it is this service"));
        }
        if self.rules.iter().any(|rule| rule.names_name(name, port)) {
            return Ok(());
        }
        // A name that everybody has, for addresses that somebody has named.
        let loopback = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        if name == "localhost"
            && loopback
                .iter()
                .any(|ip| self.check_address(Some(name), *ip, port).is_ok())
        {
            return Ok(());
        }
        Err(format!(
            "host {name:?} is not allowed: it must be named by --allow-host"
        ))
    }

    /// Looks at an address, of the text or that a name leads to. An error says why it may not be called.
    pub fn check_address(&self, name: Option<&str>, ip: IpAddr, port: u16) -> Result<(), String> {
        let ip = ip.to_canonical();
        let of = name.map_or_else(String::new, |name| format!("{name:?} leads to "));
        if self.is_own(ip, port) {
            let named = |rule: &Rule| rule.port.is_some() && rule.names_address(ip, port);
            if !self.rules.iter().any(named) {
                return Err(format!(
                    "host {of}\"{ip}\" is not allowed: it is this service; --allow-host {} would name it",
                    SocketAddr::new(ip, port)
                ));
            }
        }
        if self.rules.iter().any(|rule| rule.names_address(ip, port)) {
            return Ok(());
        }
        if let Some(class) = special(ip) {
            return Err(format!(
                "host {of}\"{ip}\" is not allowed: {class} address must be named by --allow-host {ip} or --allow-net"
            ));
        }
        // An address that is written out is a name of itself.
        let text = ip.to_string();
        let name = name.unwrap_or(&text);
        if self.rules.iter().any(|rule| rule.names_name(name, port)) {
            return Ok(());
        }
        Err(format!(
            "host {of}\"{ip}\" is not allowed: it must be named by --allow-host or --allow-net"
        ))
    }

    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        let Some(own) = self.own.get().filter(|own| own.port() == port) else {
            return false;
        };
        let listens = own.ip().to_canonical();
        listens == ip
            || (listens.is_loopback() && ip.is_loopback())
            // On every address of this machine: only one's own can be bound.
            || (listens.is_unspecified() && (ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()))
    }
}

/// The name under which calls to a host are counted. All loopback addresses are one host, as are all names of a special address. Public addresses may be shared by many, so
/// there a name is a host.
pub fn host_key(target: &Target, addresses: &[IpAddr]) -> String {
    let port = target.port;
    let first = addresses.iter().min();
    match first.map(|ip| (ip, special(*ip))) {
        Some((ip, Some(_))) if ip.is_loopback() => format!("loopback:{port}"),
        Some((ip, Some(_))) => SocketAddr::new(*ip, port).to_string(),
        _ => format!("{}:{port}", target.host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(rules: &[&str]) -> Allowed {
        let rules = rules.iter().map(|text| {
            if text.contains('/') {
                Rule::net(text).unwrap()
            } else {
                Rule::host(text).unwrap()
            }
        });
        Allowed::new(rules.collect(), &["https://queue.example.org".to_owned()])
    }

    #[test]
    fn nothing_is_allowed_but_what_is_named() {
        let allowed = allowed(&[
            "example.org",
            "*.hooks.example",
            "127.0.0.1",
            "[::1]",
            "10.1.0.0/16",
            "8.8.8.8:53",
        ]);
        for address in [
            "http://127.0.0.1:9000/x",
            "http://[::1]:80/",
            "https://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://LOCALHOST:1/a?b=c",
            "http://Example.org/hook",
            "https://Example.org./hook",
            "http://a.b.hooks.example/",
            "http://10.1.255.255/",
            "http://8.8.8.8:53/",
        ] {
            assert!(
                allowed.check(address).is_ok(),
                "{address}: {:?}",
                allowed.check(address)
            );
        }
        for (address, words) in [
            ("http://127.0.0.2/", "a loopback address must be named"),
            ("http://10.2.0.1/", "a private address"),
            ("http://8.8.8.8/", "must be named by --allow-host"),
            (
                "http://169.254.169.254/latest/meta-data",
                "a metadata address",
            ),
            ("http://[fd00:ec2::254]/", "a metadata address"),
            ("http://[fe80::1]/", "a link-local address"),
            ("http://192.0.2.8/", "is not allowed"),
            ("http://0.0.0.0/", "is not allowed"),
            ("http://[::]/", "is not allowed"),
            ("http://2130706433/", "is not allowed"),
            ("http://hooks.example/", "is not allowed"),
            ("http://localhost.example.com/", "is not allowed"),
            ("http://example.org.evil.test/", "is not allowed"),
            ("http://example.org@127.0.0.1/", "a user"),
            ("https://queue.example.org/jobs", "it is this service"),
            ("http://127.0.0.1:0/", "no number from 1 to 65535"),
            ("http://127.0.0.1:/", "no number from 1 to 65535"),
            ("http://127.0.0.1:65536/", "no number from 1 to 65535"),
            ("http://127.0.0.1:4*", "no number from 1 to 65535"),
            ("http://exa*mple.org/", "no name"),
            ("http://example.org/a b", "percent-encoded"),
            ("http://example.org/#a", "percent-encoded"),
            ("file:///etc/passwd", "is no address"),
            ("ftp://example.org/", "must begin with http://"),
            ("/x", "must begin with http://"),
            ("", "is no address"),
            ("http://", "is no address"),
        ] {
            let problem = allowed.check(address).expect_err(address).to_string();
            assert!(problem.contains(words), "{address}: {problem}");
        }
        let long = format!("http://127.0.0.1/{}", "x".repeat(MOST_ADDRESS));
        let problem = allowed.check(&long).unwrap_err();
        assert!(matches!(problem, Refusal::Malformed(text) if text.contains("at most 2000")));
    }

    #[test]
    fn a_name_that_is_allowed_opens_no_special_address() {
        for rules in [&["example.org"][..], &["*"]] {
            let allowed = allowed(rules);
            for ip in [
                "127.0.0.1",
                "10.0.0.1",
                "192.168.1.1",
                "100.64.0.1",
                "169.254.169.254",
                "::1",
                "fc00::1",
                "::ffff:10.0.0.1",
                "64:ff9b::a00:1",
                "2002:7f00:1::",
                "::7f00:1",
                "64:ff9b:1::7f00:1",
                "::ffff:0:7f00:1",
                "100::1",
                "5f00::1",
                "168.63.129.16",
                "0.0.0.0",
                "224.0.0.1",
                "255.255.255.255",
            ] {
                let ip: IpAddr = ip.parse().unwrap();
                let problem = allowed
                    .check_address(Some("example.org"), ip, 80)
                    .unwrap_err();
                assert!(
                    problem.contains("is not allowed") && problem.contains("leads to"),
                    "{ip}: {problem}"
                );
            }
            assert!(
                allowed
                    .check_address(Some("example.org"), "8.8.8.8".parse().unwrap(), 80)
                    .is_ok()
            );
            for ip in ["2606:4700::1", "64:ff9b::808:808"] {
                let ip = ip.parse().unwrap();
                assert!(allowed.check_address(Some("example.org"), ip, 80).is_ok());
            }
        }
        assert!(allowed(&["*"]).check("http://8.8.8.8/").is_ok());
        assert!(allowed(&["*"]).check("http://127.0.0.1/").is_err());
    }

    #[test]
    fn its_own_address_has_to_be_named_with_its_port() {
        for (rules, own, address, fine) in [
            (
                &["127.0.0.1"][..],
                "127.0.0.1:8085",
                "http://127.0.0.1:8085/jobs",
                false,
            ),
            (
                &["127.0.0.0/8"],
                "127.0.0.1:8085",
                "http://127.0.0.9:8085/jobs",
                false,
            ),
            (
                &["127.0.0.1"],
                "0.0.0.0:8085",
                "http://127.0.0.1:8085/jobs",
                false,
            ),
            (
                &["127.0.0.1"],
                "[::]:8085",
                "http://127.0.0.1:8085/jobs",
                false,
            ),
            (
                &["127.0.0.1"],
                "127.0.0.1:8085",
                "http://localhost:8085/jobs",
                false,
            ),
            (
                &["127.0.0.1:8085"],
                "127.0.0.1:8085",
                "http://127.0.0.1:8085/jobs",
                true,
            ),
            (
                &["127.0.0.1"],
                "127.0.0.1:8085",
                "http://127.0.0.1:8086/",
                true,
            ),
        ] {
            let allowed = allowed(rules);
            allowed.listens_on(own.parse().unwrap());
            assert_eq!(
                allowed.check(address).is_ok(),
                fine,
                "{rules:?} {own} {address}"
            );
        }
    }

    #[test]
    fn one_host_is_one_host() {
        let allowed = allowed(&[
            "127.0.0.0/8",
            "::1",
            "10.0.0.0/8",
            "localhost",
            "a.example",
            "b.example",
        ]);
        let key = |address: &str, ips: &[&str]| {
            let ips: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
            host_key(&allowed.check(address).unwrap(), &ips)
        };
        let loopback = key("http://127.0.0.1:9000/", &["127.0.0.1"]);
        assert_eq!(loopback, key("http://127.0.0.2:9000/", &["127.0.0.2"]));
        assert_eq!(
            loopback,
            key("http://localhost:9000/x", &["::1", "127.0.0.1"])
        );
        assert_eq!(loopback, key("http://[::1]:9000/", &["::1"]));
        assert_ne!(loopback, key("http://127.0.0.1:9001/", &["127.0.0.1"]));
        assert_eq!(
            key("http://10.0.0.5/", &["10.0.0.5"]),
            key("http://a.example/", &["10.0.0.5"])
        );
        // Two customers of one provider.
        assert_ne!(
            key("http://a.example/", &["8.8.8.8"]),
            key("http://b.example/", &["8.8.8.8"])
        );
        assert_eq!(
            key("http://A.example/", &["8.8.8.8"]),
            key("http://a.example/", &["8.8.4.4"])
        );
    }
}
