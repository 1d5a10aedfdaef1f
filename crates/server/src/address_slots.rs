//! Places by address, so that no address takes the places of all others.

use std::net::{IpAddr, Ipv6Addr};

use goldseam_api::Problem;

use crate::slots::{Slot, Slots};

/// A connection of an address, or a request of one behind a proxy.
pub(crate) type Connection = Slot<IpAddr>;

/// How many connections each address has.
#[derive(Debug)]
pub(crate) struct AddressSlots(Slots<IpAddr>);

impl AddressSlots {
    pub(crate) fn new(most: usize) -> Self {
        Self(Slots::new(most))
    }

    /// A connection of this address, if it may have one more.
    pub(crate) fn take(&self, address: IpAddr) -> Result<Connection, Problem> {
        let most = self.0.most();
        self.0.take(counted_as(address)).ok_or_else(|| {
            Problem::new(429, format!("this address has {most} connections already"))
                .code("GS0607")
                .hint(
                    "close some first; list a proxy under trusted_proxies, or raise connections_per_address",
                )
                .limit(most as u64)
        })
    }
}

/// A whole /64 counts as one address, as one machine has as many addresses of it as it likes.
pub(crate) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_of_ipv6_count_as_one() {
        let addresses = AddressSlots::new(1);
        let take = |address: &str| addresses.take(address.parse().unwrap());
        let _first = take("2001:db8::1").unwrap();
        assert_eq!(take("2001:db8::ffff:2").unwrap_err().limit, Some(1));
        assert!(take("2001:db8:0:1::1").is_ok());
        let _mapped = take("::ffff:10.0.0.1").unwrap();
        assert!(take("10.0.0.1").is_err());
    }
}
