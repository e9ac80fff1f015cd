//! What many responses have in common.

pub mod etags;
pub(super) mod streamed;

use std::io;

use futures::stream::{self, Stream};

/// The next piece and the state that the one after it is read with, or `None` at the end.
pub type NextPiece<S> = io::Result<Option<(Vec<u8>, S)>>;

/// The pieces that `read` returns until `None`, each read on a blocking thread.
pub fn blocking_stream<S: Send + 'static>(state: S, read: fn(S) -> NextPiece<S>) -> impl Stream<Item = io::Result<Vec<u8>>> {
    stream::try_unfold(state, move |state| async move {
        tokio::task::spawn_blocking(move || read(state)).await.map_err(io::Error::other)?
    })
}
