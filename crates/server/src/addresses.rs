//! Connections by address: so many from each, so that no address takes the places of all others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// How many connections each address has.
#[derive(Debug)]
pub(crate) struct Addresses {
    most: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection of an address; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    address: IpAddr,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Addresses {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// How many an address may have.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// A connection of this address, if it may have one more.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Connection> {
        let address = counted_as(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Connection { address, taken: Arc::clone(&self.taken) })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

/// A whole /64 counts as one address, as one machine has as many addresses of it as it likes.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_connections_and_others_have_theirs() {
        let addresses = Addresses::new(2);
        let take = |address: &str| addresses.take(address.parse().unwrap());
        let (first, second) = (take("10.0.0.1").unwrap(), take("::ffff:10.0.0.1").unwrap());
        assert!(take("10.0.0.1").is_none());
        let third = take("10.0.0.2").unwrap();
        drop(first);
        let fourth = take("10.0.0.1").unwrap();
        drop((second, third, fourth));
        assert!(addresses.taken.lock().unwrap().is_empty(), "all of them are given back");
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_count_as_one() {
        let addresses = Addresses::new(1);
        let take = |address: &str| addresses.take(address.parse().unwrap());
        let _first = take("2001:db8::1").unwrap();
        assert!(take("2001:db8::ffff:2").is_none());
        assert!(take("2001:db8:0:1::1").is_some());
    }
}
