//! What many responses have in common.

pub mod etags;
pub(super) mod streamed;
