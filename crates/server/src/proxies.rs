//! Client addresses behind trusted proxies.
//!
//! Invariant: forwarding headers count only on a connection from a trusted proxy, and only the part that trusted
//! proxies wrote: the list is read from its end up to the first address that is not trusted.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, header};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A network in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        let bits = u32::from(self.bits);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = ();

    /// Parses `ADDRESS` or `ADDRESS/BITS`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().map_err(|_| ())?)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_| ())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        match bits.unwrap_or(most) {
            bits if bits <= most => Ok(Self { address, bits }),
            _ => Err(()),
        }
    }
}

/// The header in which proxies name the client. Only one is read, because a proxy passes the other on as the client
/// sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarding {
    /// `X-Forwarded-For: CLIENT, PROXY, …`
    XForwardedFor,
    /// `Forwarded: for=CLIENT, for=PROXY, …` (RFC 7239)
    Forwarded,
}

impl FromStr for Forwarding {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.to_ascii_lowercase().as_str() {
            "x-forwarded-for" => Ok(Self::XForwardedFor),
            "forwarded" => Ok(Self::Forwarded),
            _ => Err(()),
        }
    }
}

/// The trusted proxies and their forwarding header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxies {
    /// Their addresses.
    pub trusted: Vec<Network>,
    /// Their header.
    pub header: Forwarding,
}

impl Proxies {
    /// Returns whether this address is a trusted proxy.
    pub(crate) fn trust(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// Returns the client of a connection from `peer`: the peer, unless it is a trusted proxy that names another
    /// address. An unreadable entry ends the list, because the entries before it are not trusted either.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if !self.trust(client) {
            return client;
        }
        let name = match self.header {
            Forwarding::XForwardedFor => X_FORWARDED_FOR,
            Forwarding::Forwarded => header::FORWARDED,
        };
        let lines = headers.get_all(name).into_iter().rev();
        let entries = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
        for entry in entries {
            let named = std::str::from_utf8(entry).ok().and_then(|entry| self.address(entry.trim()));
            let Some(named) = named else { return client };
            client = named;
            if !self.trust(client) {
                return client;
            }
        }
        client
    }

    /// Parses the address in one entry of the header.
    fn address(&self, entry: &str) -> Option<IpAddr> {
        let node = match self.header {
            Forwarding::XForwardedFor => entry,
            Forwarding::Forwarded => entry.split(';').find_map(|pair| {
                let (name, value) = pair.trim().split_once('=')?;
                name.eq_ignore_ascii_case("for").then_some(value.trim_matches('"'))
            })?,
        };
        let bare = node.strip_prefix('[').and_then(|node| node.strip_suffix(']')).unwrap_or(node);
        let with_port = || node.parse::<SocketAddr>().map(|address| address.ip());
        bare.parse().or_else(|_| with_port()).ok().map(|address: IpAddr| address.to_canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(header: Forwarding) -> Proxies {
        let trusted = ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"];
        Proxies { trusted: trusted.iter().map(|network| network.parse().unwrap()).collect(), header }
    }

    #[test]
    fn network_contains_only_its_addresses() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1") && contains("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1") && !contains("10.0.0.0/8", "a00::1"));
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.6"));
        assert!(contains("0.0.0.0/0", "203.0.113.9") && contains("::/0", "2001:db8::1"));
        assert!(contains("2001:db8::/33", "2001:db8::1") && !contains("2001:db8::/33", "2001:db8:8000::1"));
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/-1", "::/129", "proxy", "10.0.0.0/"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }

    #[test]
    fn client_is_the_last_address_named_by_a_trusted_proxy() {
        let ask = |peer: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(X_FORWARDED_FOR, line.parse().unwrap());
            }
            proxies(Forwarding::XForwardedFor).client(peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(ask("203.0.113.9", &["198.51.100.1"]), "203.0.113.9", "the peer is not trusted");
        assert_eq!(ask("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(ask("::ffff:10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(
            ask("10.0.0.1", &["6.6.6.6, 198.51.100.1, 10.0.0.2"]),
            "198.51.100.1",
            "the client's own claim is ignored"
        );
        assert_eq!(ask("10.0.0.1", &["6.6.6.6, 198.51.100.1", "192.0.2.7"]), "198.51.100.1", "two lines");
        assert_eq!(ask("10.0.0.1", &["10.0.0.3, 10.0.0.2"]), "10.0.0.3", "all of them are trusted");
        assert_eq!(ask("10.0.0.1", &["198.51.100.1:4711"]), "198.51.100.1");
        assert_eq!(ask("10.0.0.1", &["[2001:dead::1]:80"]), "2001:dead::1");
        for bad in ["unknown", "", ",", "6.6.6.6, what?", "6.6.6.6,", "1.2.3.4.5", "[::1"] {
            assert_eq!(ask("10.0.0.1", &[bad]), "10.0.0.1", "{bad:?}");
        }
    }

    #[test]
    fn reads_forwarded_header_of_rfc_7239_if_configured() {
        let ask = |line: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(header::FORWARDED, axum::http::HeaderValue::from_bytes(line).unwrap());
            headers.insert(X_FORWARDED_FOR, "6.6.6.6".parse().unwrap());
            proxies(Forwarding::Forwarded).client("10.0.0.1".parse().unwrap(), &headers).to_string()
        };
        assert_eq!(ask(b"for=198.51.100.1"), "198.51.100.1");
        assert_eq!(ask(b"for=6.6.6.6, For=\"[2001:dead::1]:4711\";proto=http;by=10.0.0.1"), "2001:dead::1");
        assert_eq!(ask(b"for=\", for=198.51.100.1"), "198.51.100.1", "an unclosed quote");
        for bad in [&b"for=_hidden"[..], b"for=unknown", b"by=10.0.0.1", b"198.51.100.1", b"for=\xff", b"for"]
        {
            assert_eq!(ask(bad), "10.0.0.1");
        }
    }
}
