//! Makes and checks connections to a database server, and gives them up when it falls silent.

use std::time::Duration;

use r2d2::ManageConnection;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::types::Type;
use tokio_postgres::{CancelToken, Config};

use super::client::{BlockingClient, Connections, cancel, runtime};
use super::fault::Fault;
use super::hosts::connect_to_any;
use super::session::{Session, VectorTypes};
use super::tls::Tls;
use crate::store::StoreError;

/// How long a server may take to accept a connection, and then to answer each of its first statements.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The same if there are other hosts to try: after a failover, the former primary is one of them.
const HOST_TIMEOUT: Duration = Duration::from_secs(3);
const HOST_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for a replica, and how long its machine may be silent. It is short because the primary can answer instead.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an idle connection may be silent before its machine is asked for a sign of life, and how long that, or the
/// confirmation of what was sent, may take. The system's own limits are two hours and a quarter of an hour: so long a server
/// would wait for a primary that has lost power, although its replica has replaced it.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// It is also how long a server may take to answer a trivial question, because a machine or a proxy may go on to confirm what it
/// receives although the server hangs.
const SILENCE_MAX: Duration = Duration::from_secs(15);
const REPLICA_SILENCE_MAX: Duration = Duration::from_secs(5);

/// A transaction locks rows that other servers wait for. So these settings make the database notice within half a minute that a
/// machine is gone, and end the transaction of a process that hangs.
const KEEPALIVE_SETTINGS: &str = "set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 4;
    set idle_in_transaction_session_timeout = '60s'";

/// Makes the types and operators of pgvector visible if it is installed in a schema that is not in the search path, as some
/// hosted databases do.
const FIND_PGVECTOR: &str = "
    select set_config('search_path', concat_ws(', ', nullif(current_setting('search_path'), ''), quote_ident(nspname)), false)
    from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
    where extname = 'vector' and nspname <> all (current_schemas(true))";

/// Makes and checks connections.
#[derive(Clone)]
pub(super) struct Manager {
    config: Config,
    tls: Tls,
    types: VectorTypes,
    read_only: bool,
    /// How long the server may take to let in a connection, and then to answer each of its first statements.
    answer_max: Duration,
    /// How long the server may take to answer a trivial question before all connections to it are given up.
    silence_max: Duration,
    connections: Connections,
}

impl Manager {
    /// Connects to the server at an address: a URL, or key-value pairs as in libpq.
    pub(super) fn new(url: &str, tls: &Tls) -> Result<Self, StoreError> {
        let mut config: Config = url
            .parse()
            .map_err(|source| StoreError::UnsuitableServer { problem: format!("its address cannot be read: {source}") })?;
        let is_alone = config.get_hosts().len() < 2;
        config
            .application_name("dragoman")
            .connect_timeout(if is_alone { CONNECT_TIMEOUT } else { HOST_TIMEOUT })
            .tcp_user_timeout(SILENCE_MAX)
            .keepalives_idle(IDLE_MAX)
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3);
        if config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) {
            config.ssl_mode(SslMode::Disable);
        }
        Ok(Self {
            config,
            tls: tls.clone(),
            types: VectorTypes { single: Type::UNKNOWN, many: Type::UNKNOWN },
            read_only: false,
            answer_max: if is_alone { CONNECT_TIMEOUT } else { HOST_ANSWER_TIMEOUT },
            silence_max: SILENCE_MAX,
            connections: Connections::default(),
        })
    }

    pub(super) fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// Only connects to a server that takes writes: of several hosts to the primary, whichever it is after a failover.
    pub(super) fn primary_only(mut self) -> Self {
        self.config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        self
    }

    /// Omits the types of pgvector, which a server may not have.
    pub(super) fn without_types(&self) -> Self {
        self.clone().with_types(VectorTypes { single: Type::UNKNOWN, many: Type::UNKNOWN })
    }

    /// Sets the types of pgvector, whose numbers differ between servers.
    pub(super) fn with_types(self, types: VectorTypes) -> Self {
        Self { types, ..self }
    }

    /// Makes a manager for a replica with the same rows, which notices within seconds that the replica is gone.
    pub(super) fn for_replica(&self, url: &str) -> Result<Self, StoreError> {
        let mut manager = Self::new(url, &self.tls)?.with_types(self.types.clone());
        manager
            .config
            .connect_timeout(REPLICA_TIMEOUT)
            .tcp_user_timeout(REPLICA_TIMEOUT)
            .keepalives_idle(REPLICA_TIMEOUT)
            .keepalives_interval(Duration::from_secs(1))
            .keepalives_retries(2);
        (manager.answer_max, manager.silence_max) = (REPLICA_SILENCE_MAX, REPLICA_SILENCE_MAX);
        Ok(manager)
    }

    /// Makes a connection for trivial questions, which the server must always answer soon.
    pub(super) fn connect_to_watch(&self) -> Result<Session, Fault> {
        let mut session = self.connect()?;
        session.set_limit(Some(self.silence_max));
        Ok(session)
    }

    /// Ends all statements that wait for the server, and makes all existing connections unusable.
    pub(super) fn give_up_connections(&self) {
        self.connections.give_up();
    }

    /// Ends the running statement of a connection. Fails with `Fault::Silent` if the server does not answer.
    pub(super) fn cancel(&self, token: &CancelToken) -> Result<(), Fault> {
        runtime()?.block_on(cancel(token, &self.tls))
    }

    /// Connects to a configuration's only host.
    fn connect_to(&self, single: &Config) -> Result<Session, Fault> {
        let client = BlockingClient::connect(single, &self.tls, self.answer_max, &self.connections)?;
        let mut session = Session::new(client, self.types.clone());
        // An acknowledged write must survive a crash, even if the server's default is otherwise.
        session.execute_batch(
            "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'",
        )?;
        session.execute_batch(KEEPALIVE_SETTINGS)?;
        session.execute_batch(FIND_PGVECTOR)?;
        if self.read_only {
            session.execute_batch("set default_transaction_read_only = on")?;
        }
        if self.types.single != Type::UNKNOWN {
            // The client asks for the description of this type when a column first has it. During a large answer it would have
            // to wait for all rows before that, so it asks now.
            session.rows("select null::vector where false", &[])?;
        }
        session.set_limit(None);
        Ok(session)
    }
}

impl ManageConnection for Manager {
    type Connection = Session;
    type Error = Fault;

    fn connect(&self) -> Result<Session, Fault> {
        connect_to_any(&self.config, self.answer_max, |single| self.connect_to(single))
    }

    /// Fails if the connection does not answer in time, although others may: the caller then gets another one.
    fn is_valid(&self, session: &mut Session) -> Result<(), Fault> {
        session.set_limit(Some(self.silence_max));
        session.check()?;
        session.set_limit(None);
        Ok(())
    }

    fn has_broken(&self, session: &mut Session) -> bool {
        session.is_broken()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Config {
        Manager::new(url, &Tls::trusting(None).unwrap()).unwrap().config
    }

    #[test]
    fn a_primary_that_has_lost_power_is_noticed_within_half_a_minute() {
        let config = config("postgres://dragoman@one.example/db");
        let silence = *config.get_tcp_user_timeout().unwrap();
        assert!(config.get_keepalives() && config.get_keepalives_idle() + silence <= Duration::from_secs(30), "{config:?}");
    }

    #[test]
    fn one_of_several_hosts_has_less_time_to_accept_a_connection() {
        let connect_timeout = |url: &str| *config(url).get_connect_timeout().unwrap();
        let (one, two) = ("postgres://dragoman@one.example/db", "postgres://dragoman@one.example,two.example/db");
        assert!(connect_timeout(two) * 3 <= connect_timeout(one));
    }
}
