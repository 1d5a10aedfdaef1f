//! Connection limits per client address.

use std::net::{IpAddr, Ipv6Addr};

use goldseam_api::Problem;

use crate::slots::{Slot, Slots};

/// A connection of an address, or a request of an address behind a proxy.
pub(crate) type AddressSlot = Slot<IpAddr>;

/// The connections of every address.
#[derive(Debug)]
pub(crate) struct AddressSlots(Slots<IpAddr>);

impl AddressSlots {
    pub(crate) fn new(max: usize) -> Self {
        Self(Slots::new(max))
    }

    /// Takes a slot of this address if one is free.
    pub(crate) fn take(&self, address: IpAddr) -> Result<AddressSlot, Problem> {
        let max = self.0.max();
        self.0.take(network_of(address)).ok_or_else(|| {
            Problem::new(429, format!("this address already has {max} connections, the maximum"))
                .code("GS0607")
                .hint("close a connection, list the proxy under trusted_proxies, or raise connections_per_address")
                .limit(max as u64)
        })
    }
}

/// Returns the address that limits count: an IPv6 /64 counts as one, because one machine can use all of its addresses.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_ipv6_network_share_a_limit() {
        let addresses = AddressSlots::new(1);
        let take = |address: &str| addresses.take(address.parse().unwrap());
        let _first = take("2001:db8::1").unwrap();
        assert_eq!(take("2001:db8::ffff:2").unwrap_err().limit, Some(1));
        assert!(take("2001:db8:0:1::1").is_ok());
        let _mapped = take("::ffff:10.0.0.1").unwrap();
        assert!(take("10.0.0.1").is_err());
    }
}
