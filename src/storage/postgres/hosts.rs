//! The hosts of a connection string. They are tried one by one, and each of their addresses has its own time, so that a host that
//! accepts a connection but never answers does not use up that of the others.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use uuid::Uuid;

use super::client::runtime;
use super::fault::Fault;

const PORT: u16 = 5_432;

/// A host of a connection string: its name or socket, its address if that is given, too, and its port.
struct Candidate {
    host: Option<Host>,
    address: Option<IpAddr>,
    port: u16,
}

/// Calls `connect` with a configuration for each address of each host until it succeeds. Returns its last error if it never does.
pub(super) fn connect_to_any<T>(
    config: &Config,
    within: Duration,
    mut connect: impl FnMut(&Config) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut last = None;
    let candidates = candidates(config);
    if candidates.is_empty() {
        // The client's error says that the host is missing.
        return connect(config);
    }
    for candidate in candidates {
        let configs = match candidate.configs(config, within) {
            Ok(configs) => configs,
            Err(fault) => {
                last = Some(fault);
                continue;
            }
        };
        for single in configs {
            match connect(&single) {
                Ok(connected) => return Ok(connected),
                Err(fault) => last = Some(fault),
            }
        }
    }
    Err(last.unwrap_or(Fault::Silent))
}

fn candidates(config: &Config) -> Vec<Candidate> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
    let mut found: Vec<Candidate> = (0..hosts.len().max(addresses.len()))
        .map(|index| Candidate { host: hosts.get(index).cloned(), address: addresses.get(index).copied(), port: port(index) })
        .collect();
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        found.sort_by_cached_key(|_| Uuid::new_v4());
    }
    found
}

impl Candidate {
    /// Returns a configuration for each of its addresses.
    fn configs(&self, config: &Config, within: Duration) -> Result<Vec<Config>, Fault> {
        let addresses = match (&self.host, self.address) {
            (_, Some(address)) => vec![Some(address)],
            (Some(Host::Tcp(name)), None) => resolve(name, self.port, within)?.into_iter().map(Some).collect(),
            (_, None) => vec![None],
        };
        Ok(addresses.into_iter().map(|address| self.config(config, address)).collect())
    }

    fn config(&self, config: &Config, address: Option<IpAddr>) -> Config {
        let mut single = without_hosts(config);
        single.port(self.port);
        match &self.host {
            Some(Host::Tcp(name)) => single.host(name),
            Some(Host::Unix(path)) => single.host_path(path),
            None => &mut single,
        };
        if let Some(address) = address {
            single.hostaddr(address);
        }
        single
    }
}

fn resolve(name: &str, port: u16, within: Duration) -> Result<Vec<IpAddr>, Fault> {
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let runtime = runtime()?;
    let found = runtime.block_on(async { tokio::time::timeout(within, tokio::net::lookup_host((name, port))).await });
    let found = found.map_err(|_| Fault::Silent).and_then(|found| Ok(found.map_err(Fault::System)?.collect::<Vec<_>>()));
    // The search for the address may still run.
    runtime.shutdown_background();
    Ok(found?.iter().map(SocketAddr::ip).collect())
}

/// Copies a configuration, all but its hosts, which cannot be removed from it.
fn without_hosts(config: &Config) -> Config {
    let mut copy = Config::new();
    copy.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .target_session_attrs(config.get_target_session_attrs())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle());
    if let Some(user) = config.get_user() {
        copy.user(user);
    }
    if let Some(password) = config.get_password() {
        copy.password(password);
    }
    if let Some(name) = config.get_dbname() {
        copy.dbname(name);
    }
    if let Some(options) = config.get_options() {
        copy.options(options);
    }
    if let Some(name) = config.get_application_name() {
        copy.application_name(name);
    }
    if let Some(timeout) = config.get_connect_timeout() {
        copy.connect_timeout(*timeout);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        copy.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        copy.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        copy.keepalives_retries(retries);
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expect: &[&str]) {
        let tried = std::cell::RefCell::new(Vec::new());
        let _ = connect_to_any(&url.parse().unwrap(), Duration::from_secs(5), |single| {
            tried.borrow_mut().push(format!("{:?} {:?} {:?}", single.get_hosts(), single.get_hostaddrs(), single.get_ports()));
            Err::<(), _>(Fault::Silent)
        });
        assert_eq!(*tried.borrow(), expect);
    }

    #[test]
    fn each_host_is_tried_with_its_own_port() {
        check(
            "postgres://u@127.0.0.1:1,127.0.0.2:2/db",
            &["[Tcp(\"127.0.0.1\")] [127.0.0.1] [1]", "[Tcp(\"127.0.0.2\")] [127.0.0.2] [2]"],
        );
        check(
            "host=127.0.0.1,127.0.0.2 port=7",
            &["[Tcp(\"127.0.0.1\")] [127.0.0.1] [7]", "[Tcp(\"127.0.0.2\")] [127.0.0.2] [7]"],
        );
        check("host=/run,/tmp", &["[Unix(\"/run\")] [] [5432]", "[Unix(\"/tmp\")] [] [5432]"]);
        check("host=name.invalid hostaddr=127.0.0.3", &["[Tcp(\"name.invalid\")] [127.0.0.3] [5432]"]);
    }

    #[test]
    fn a_configuration_for_one_host_keeps_everything_else() {
        let url = "user=u password=p dbname=d options='-c a=b' application_name=n sslmode=require connect_timeout=3 \
                   tcp_user_timeout=4 keepalives=1 keepalives_idle=5 keepalives_interval=6 keepalives_retries=7 \
                   target_session_attrs=read-write channel_binding=disable";
        let all: Config = url.parse().unwrap();
        assert_eq!(without_hosts(&all), all);
    }
}
