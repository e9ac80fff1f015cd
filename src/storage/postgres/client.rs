//! A blocking connection to a database server that never waits forever. A server may stop answering without closing its
//! connections, for example when its machine hangs or a proxy on the way loses the network.
//!
//! How long a statement takes cannot be known in advance, so there is no limit on that. Instead, all connections to a server share
//! a `Connections`: when a trivial question gets no answer in time, all of them are given up.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, Connection, Error, NoTls, Row, RowStream, Socket};

use super::fault::Fault;
use super::tls::{Encrypted, Tls};
use crate::store::{has_caller, is_caller_gone};

/// How long a connection may take to say goodbye.
const GOODBYE_MAX: Duration = Duration::from_millis(500);
/// How long the process that ends a statement may take to accept that.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection may take to confirm that its statement was canceled. It is then given up alone: its process hangs,
/// although the server answers.
const CANCELED_MAX: Duration = Duration::from_secs(5);
/// Time between two checks whether the caller of a read is gone.
const CALLER_CHECK: Duration = Duration::from_millis(100);

/// The connections to one server. Clones share them.
#[derive(Clone)]
pub(super) struct Connections(watch::Sender<()>);

impl Default for Connections {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Connections {
    /// Ends all statements that wait for the server, and makes all existing connections unusable.
    pub(super) fn give_up(&self) {
        self.0.send_replace(());
    }
}

/// A connection that only makes progress while a statement waits for it.
pub(super) struct BlockingClient {
    /// `None` only while this is being dropped.
    client: Option<Client>,
    connection: Connection<Socket, Encrypted<Socket>>,
    given_up: watch::Receiver<()>,
    is_silent: bool,
    tls: Tls,
    /// Whether a statement was canceled. The cancellation may still arrive, and must not end the statement of someone else.
    is_canceled: bool,
    /// How long the server may take to answer a statement. `None` for as long as it shows any sign of life.
    limit: Option<Duration>,
    /// `None` only while this is being dropped.
    runtime: Option<Runtime>,
}

impl BlockingClient {
    /// Connects to a single host within this time.
    pub(super) fn connect(config: &Config, tls: &Tls, within: Duration, others: &Connections) -> Result<Self, Fault> {
        let given_up = others.0.subscribe();
        let runtime = runtime()?;
        let connected = runtime.block_on(async { tokio::time::timeout(within, config.connect(tls.clone())).await });
        let (client, connection) = connected.map_err(|_| Fault::Silent)??;
        Ok(Self {
            client: Some(client),
            connection,
            given_up,
            is_silent: false,
            tls: tls.clone(),
            is_canceled: false,
            limit: Some(within),
            runtime: Some(runtime),
        })
    }

    /// Sets how long the server may take to answer each statement.
    pub(super) fn set_limit(&mut self, limit: Option<Duration>) {
        self.limit = limit;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_silent || self.is_canceled || self.client.as_ref().is_none_or(Client::is_closed)
    }

    pub(super) fn cancel_token(&self) -> Result<CancelToken, Fault> {
        self.client.as_ref().map(Client::cancel_token).ok_or(Fault::Silent)
    }

    /// Waits for a statement. Ends it if its caller is gone. After a failure because of silence, no other statement can use the
    /// connection.
    pub(super) fn wait<'c, T, F>(&'c mut self, begin: impl FnOnce(&'c Client) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let Self { client: Some(client), connection, given_up, is_silent, tls, is_canceled, limit, runtime: Some(runtime) } =
            self
        else {
            return Err(Fault::Silent);
        };
        if *is_silent {
            return Err(Fault::Silent);
        }
        let mut work = pin!(begin(client));
        let mut answered = poll_fn(|context| match poll_connection(connection, context) {
            Err(error) => Poll::Ready(Err(error)),
            Ok(_) => work.as_mut().poll(context),
        });
        let within = if *is_canceled { CANCELED_MAX } else { limit.unwrap_or(Duration::MAX) };
        let done = runtime.block_on(async {
            let (mut too_late, mut gone) = (pin!(tokio::time::sleep(within)), pin!(caller_gone()));
            loop {
                tokio::select! {
                    biased;
                    _ = given_up.changed() => return None,
                    done = &mut answered => return Some(done),
                    () = &mut too_late => return None,
                    () = &mut gone, if !*is_canceled => {
                        *is_canceled = true;
                        // The statement then fails. If it does not, its result comes too late.
                        let _ = cancel(&client.cancel_token(), tls).await;
                        let latest = Instant::now() + CANCELED_MAX;
                        let earlier = too_late.deadline().min(latest);
                        too_late.as_mut().reset(earlier);
                    }
                }
            }
        });
        *is_silent = done.is_none();
        Ok(done.ok_or(Fault::Silent)??)
    }

    /// Waits for the next row of a statement.
    pub(super) fn next_row(&mut self, mut rows: Pin<&mut RowStream>) -> Result<Option<Row>, Fault> {
        self.wait(|_| poll_fn(move |context| rows.as_mut().poll_next(context).map(Option::transpose)))
    }
}

impl Drop for BlockingClient {
    fn drop(&mut self) {
        // Without a client, the connection says goodbye and ends.
        drop(self.client.take());
        let Some(runtime) = self.runtime.take() else { return };
        if !self.is_silent {
            let connection = &mut self.connection;
            let ended = poll_fn(|context| match poll_connection(connection, context) {
                Ok(false) => Poll::Pending,
                Ok(true) | Err(_) => Poll::Ready(()),
            });
            let _ = runtime.block_on(async { tokio::time::timeout(GOODBYE_MAX, ended).await });
        }
        // A search for the address of a host may still run.
        runtime.shutdown_background();
    }
}

/// Lets the connection send and receive. Returns whether it has ended. Its error says more than the one of a statement.
fn poll_connection(connection: &mut Connection<Socket, Encrypted<Socket>>, context: &mut Context<'_>) -> Result<bool, Error> {
    loop {
        match connection.poll_message(context) {
            Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => tracing::debug!(%notice, "the database server says"),
            Poll::Ready(Some(message)) => drop(message?),
            Poll::Ready(None) => return Ok(true),
            Poll::Pending => return Ok(false),
        }
    }
}

/// Waits until the caller of this thread's reads is gone.
async fn caller_gone() {
    if !has_caller() {
        return std::future::pending().await;
    }
    while !is_caller_gone() {
        tokio::time::sleep(CALLER_CHECK).await;
    }
}

/// Ends the running statement of a connection. Fails with `Fault::Silent` if the server does not answer.
pub(super) async fn cancel(token: &CancelToken, tls: &Tls) -> Result<(), Fault> {
    let cancel = async {
        match token.cancel_query(tls.clone()).await {
            Ok(()) => Ok(()),
            Err(_) => token.cancel_query(NoTls).await,
        }
    };
    let ended = tokio::time::timeout(CANCEL_TIMEOUT, cancel).await;
    Ok(ended.map_err(|_| Fault::Silent)??)
}

/// Makes a runtime for one connection, or for one question to the server.
pub(super) fn runtime() -> Result<Runtime, Fault> {
    Builder::new_current_thread().enable_all().build().map_err(Fault::System)
}
