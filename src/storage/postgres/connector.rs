//! Makes and checks connections to a database server.

use std::time::Duration;

use postgres::Config;
use postgres::config::{Host, SslMode};
use postgres::types::Type;
use r2d2::ManageConnection;

use super::session::{Session, VectorTypes};
use super::tls::Tls;
use crate::store::StoreError;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for a replica, and how long its machine may be silent: somebody else can answer.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(2);

/// A transaction holds rows that other servers wait for. So the database notices within half a minute that a machine is gone, and ends
/// the transaction of a process that stands still.
const ALIVE: &str = "set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 4;
    set idle_in_transaction_session_timeout = '60s'";

/// Makes and checks connections.
#[derive(Clone)]
pub(super) struct Manager {
    config: Config,
    tls: Tls,
    types: VectorTypes,
    /// Whether its connections can change nothing.
    read_only: bool,
}

impl Manager {
    /// For the server at an address: a URL, or pairs as libpq reads them.
    pub(super) fn new(url: &str, tls: &Tls) -> Result<Self, StoreError> {
        let mut config: Config = url
            .parse()
            .map_err(|source| StoreError::UnsuitableServer { problem: format!("its address cannot be read: {source}") })?;
        config.application_name("dragoman").connect_timeout(CONNECT_TIMEOUT);
        if config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) {
            config.ssl_mode(SslMode::Disable);
        }
        Ok(Self { config, tls: tls.clone(), types: VectorTypes { one: Type::UNKNOWN, many: Type::UNKNOWN }, read_only: false })
    }

    /// For connections that can change nothing.
    pub(super) fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// Without the types of pgvector, which a server may not have.
    pub(super) fn without_types(&self) -> Self {
        self.clone().with_types(VectorTypes { one: Type::UNKNOWN, many: Type::UNKNOWN })
    }

    /// With the server's own numbers of types.
    pub(super) fn with_types(self, types: VectorTypes) -> Self {
        Self { types, ..self }
    }

    /// For another server that has the same rows, and notices within seconds that it is gone.
    pub(super) fn of_replica(&self, url: &str) -> Result<Self, StoreError> {
        let mut manager = Self::new(url, &self.tls)?.with_types(self.types.clone());
        manager
            .config
            .connect_timeout(REPLICA_TIMEOUT)
            .tcp_user_timeout(REPLICA_TIMEOUT)
            .keepalives_idle(REPLICA_TIMEOUT)
            .keepalives_interval(Duration::from_secs(1))
            .keepalives_retries(2);
        Ok(manager)
    }
}

impl ManageConnection for Manager {
    type Connection = Session;
    type Error = postgres::Error;

    fn connect(&self) -> Result<Session, postgres::Error> {
        let mut client = self.config.connect(self.tls.clone())?;
        // An acknowledged write must survive a crash, whatever the server's default is.
        client.batch_execute(
            "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'",
        )?;
        client.batch_execute(ALIVE)?;
        if self.read_only {
            client.batch_execute("set default_transaction_read_only = on")?;
        }
        if self.types.one != Type::UNKNOWN {
            // The client asks what this type is when a column first has it, and would wait for that behind the rows of a large answer.
            client.query_typed("select null::vector where false", &[])?;
        }
        Ok(Session::new(client, self.types.clone()))
    }

    fn is_valid(&self, session: &mut Session) -> Result<(), postgres::Error> {
        session.check()
    }

    fn has_broken(&self, session: &mut Session) -> bool {
        session.is_broken()
    }
}
