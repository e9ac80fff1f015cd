//! Which account a request is charged to: limits apply per account, not per request.

use std::net::{IpAddr, Ipv6Addr};

use super::{Caller, KeyId};

/// The account that a request is charged to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum QuotaOwner {
    /// A key.
    Key(KeyId),
    /// The admin key of the configuration.
    Operator,
    /// An address; for IPv6 its /64, which belongs to one subscriber.
    Address(IpAddr),
    /// All callers without their own account.
    Others,
    /// Callers of an earlier run of the server, who are no longer known.
    Earlier,
}

impl QuotaOwner {
    /// The account of a caller whose request came from `address`.
    pub fn for_caller(caller: &Caller, address: Option<IpAddr>) -> Self {
        match caller {
            Caller::Holder(key) => Self::Key(key.id.clone()),
            Caller::Operator => Self::Operator,
            Caller::Anyone => Self::for_address(address),
        }
    }

    /// The account of an anonymous caller at `address`.
    pub fn for_address(address: Option<IpAddr>) -> Self {
        let network = |address: IpAddr| match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            v4 => v4,
        };
        address.map_or(Self::Others, |address| Self::Address(network(address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_owners_are_ipv4_addresses_and_ipv6_64_prefixes() {
        let owner_of = |text: &str| QuotaOwner::for_address(Some(text.parse().unwrap()));
        assert_eq!(owner_of("2001:db8:1:2::1"), owner_of("2001:db8:1:2:ffff::9"));
        assert_ne!(owner_of("2001:db8:1:2::1"), owner_of("2001:db8:1:3::1"));
        assert_eq!(owner_of("::ffff:192.0.2.1"), owner_of("192.0.2.1"));
        assert_ne!(owner_of("192.0.2.1"), owner_of("192.0.2.2"));
    }
}
