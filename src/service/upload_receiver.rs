//! Receives uploads: streams a request's body into a file in constant memory, decompressing it on the way.
//!
//! Stops early if the decompressed size, the compression ratio or the free disk space is out of bounds. A received file is
//! durable. After an error there is no file.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;
use tempfile::TempPath;
use tokio::sync::{Notify, mpsc};

use super::blocking::blocking;
use super::error::Error;
use super::folders::{AtPath, sync_dir};
use crate::compression::bounded_decoder;
use crate::disk::free_bytes;
use crate::domain::{FileEncoding, Limits, QuotaOwner};
use crate::service::limits::budget::RequestMemory;
use crate::service::limits::shares::{LimitExceeded, LimitShare, SharedLimit};

/// If an upload sends less than `PACE_BYTES` in this time, it loses its slot to one that waits. Otherwise a very slow sender
/// would keep its slot forever.
const PACE: Duration = Duration::from_secs(10);
/// Minimum number of bytes that a sender must send in `PACE` to keep its slot.
const PACE_BYTES: u64 = 64 << 10;
/// A sender that is silent for this long counts as gone. The network does not always report a lost sender, and an upload that
/// never ends would keep its slot forever.
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// Maximum number of pieces of a body that wait to be written.
const PIECES_WAITING: usize = 8;
/// Number of bytes written between two checks of the free disk space.
const BYTES_PER_CHECK: u64 = 16 << 20;
const COPY_BYTES: usize = 128 << 10;
/// Maximum compression ratio. Text compresses to a tenth of its size, rarely to a fiftieth.
const RATIO_MAX: u64 = 200;
/// A smaller file may have any compression ratio.
const DENSE_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, Copy)]
pub(super) struct UploadBounds {
    /// Maximum size after decompression, in bytes.
    pub(super) bytes_max: u64,
    /// Disk space to keep free, in bytes.
    pub(super) disk_reserve: u64,
    pub(super) silence_max: Duration,
}

impl UploadBounds {
    pub(super) fn new(limits: &Limits) -> Self {
        let Limits { import_bytes_max: bytes_max, disk_reserve_bytes: disk_reserve, .. } = *limits;
        Self { bytes_max, disk_reserve, silence_max: SILENCE_MAX }
    }
}

pub(super) struct Uploads {
    bound: Arc<SharedLimit>,
    pace: Duration,
    running: Mutex<Vec<Weak<Upload>>>,
}

/// The slot of an upload.
pub(super) struct Upload {
    owner: QuotaOwner,
    slot: Mutex<Option<LimitShare>>,
    progress: Mutex<UploadProgress>,
    evicted: Notify,
}

/// How much of an upload has arrived, and when the upload was last fast enough.
struct UploadProgress {
    since: Instant,
    bytes: u64,
}

impl Uploads {
    pub(super) fn new(uploads_max: usize) -> Self {
        Self::with_pace(uploads_max, PACE)
    }

    fn with_pace(uploads_max: usize, pace: Duration) -> Self {
        Self { bound: SharedLimit::new("uploads_max", uploads_max as u64), pace, running: Mutex::default() }
    }

    pub(super) fn bound(&self) -> Arc<SharedLimit> {
        Arc::clone(&self.bound)
    }

    /// Takes a slot for the request that this task runs. If none is free, takes the slot of the slowest upload that is below
    /// the pace. If the owner has used up its own share, only its own uploads can lose their slot.
    pub(super) fn begin(&self) -> Result<Arc<Upload>, Error> {
        let owner = RequestMemory::current().owner();
        let slot = self.bound.acquire(owner.clone(), 1).or_else(|refusal| {
            let only_owner = matches!(refusal, LimitExceeded::Share { .. }).then_some(&owner);
            if !self.evict_slowest(only_owner) {
                return Err(refusal);
            }
            self.bound.acquire(owner.clone(), 1)
        })?;
        let progress = Mutex::new(UploadProgress { since: Instant::now(), bytes: 0 });
        let upload = Arc::new(Upload { owner, slot: Mutex::new(Some(slot)), progress, evicted: Notify::new() });
        let mut running = self.running.lock();
        running.retain(|upload| upload.strong_count() > 0);
        running.push(Arc::downgrade(&upload));
        Ok(upload)
    }

    /// Frees the slot of the slowest upload that is below the pace, among all uploads or those of `owner`. Returns whether there
    /// was one.
    fn evict_slowest(&self, owner: Option<&QuotaOwner>) -> bool {
        let running: Vec<Arc<Upload>> = self.running.lock().iter().filter_map(Weak::upgrade).collect();
        let below_pace = running.into_iter().filter(|upload| owner.is_none_or(|owner| upload.owner == *owner));
        let below_pace = below_pace.filter_map(|upload| {
            let since = upload.progress.lock().since;
            (since.elapsed() >= self.pace && upload.slot.lock().is_some()).then_some((since, upload))
        });
        let Some((_, slowest)) = below_pace.min_by_key(|(since, _)| *since) else { return false };
        slowest.slot.lock().take();
        slowest.evicted.notify_one();
        true
    }
}

impl Upload {
    fn record_bytes(&self, bytes: u64) {
        let mut progress = self.progress.lock();
        progress.bytes += bytes;
        if progress.bytes >= PACE_BYTES {
            *progress = UploadProgress { since: Instant::now(), bytes: 0 };
        }
    }
}

/// Receives `body` into the new file `path` in an existing folder. Returns the length of the file when it is durable. After an
/// error, or if the caller goes away, there is no file.
pub(super) async fn receive<B, E, S>(
    mut body: S,
    encoding: FileEncoding,
    path: PathBuf,
    (bounds, upload): (UploadBounds, &Upload),
) -> Result<u64, Error>
where
    B: AsRef<[u8]> + Send + 'static,
    S: Stream<Item = Result<B, E>> + Unpin,
{
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    let writing = tokio::spawn(blocking(move || {
        // Dropping this removes the file. It is dropped here after an error, or by the runtime if no task waits for the result
        // anymore.
        let unclaimed = TempPath::try_from_path(path.as_path()).at(&path)?;
        let bytes = write(receiver, encoding, &path, bounds)?;
        Ok((bytes, unclaimed))
    }));
    loop {
        let next = tokio::select! {
            next = tokio::time::timeout(bounds.silence_max, body.next()) => next,
            () = upload.evicted.notified() => return Err(Error::UploadEvicted),
        };
        let piece = match next {
            Ok(Some(Ok(bytes))) => {
                upload.record_bytes(bytes.as_ref().len() as u64);
                Some(bytes)
            }
            Ok(None) => None,
            // Dropping the sender early tells the writer that the body is incomplete.
            Ok(Some(Err(_))) | Err(_) => break,
        };
        let last = piece.is_none();
        // If the writer has ended early, it has an error to report.
        if sender.send(piece).await.is_err() || last {
            break;
        }
    }
    drop(sender);
    let (bytes, mut unclaimed) = writing.await??;
    unclaimed.disable_cleanup(true);
    Ok(bytes)
}

/// Checks that the disk of `folder` has room for `needed` bytes in addition to the reserve.
pub(super) fn check_disk_space(folder: &Path, needed: u64, reserve: u64) -> Result<(), Error> {
    let free = free_bytes(folder).at(folder)?;
    if free < needed.saturating_add(reserve) { Err(Error::InsufficientDiskSpace { needed, reserve, free }) } else { Ok(()) }
}

fn write<B: AsRef<[u8]>>(
    pieces: mpsc::Receiver<Option<B>>,
    encoding: FileEncoding,
    path: &Path,
    bounds: UploadBounds,
) -> Result<u64, Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let (packed, broken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let body = Pieces { pieces, piece: None, offset: 0, over: false, packed: Arc::clone(&packed), broken: Arc::clone(&broken) };
    let failed = |source: io::Error| match broken.load(Ordering::Relaxed) {
        true => Error::BodyIncomplete,
        false => Error::Encoding { encoding, source },
    };
    let mut unpacked = bounded_decoder(encoding, body).map_err(failed)?;
    let mut file = File::create_new(path).at(path)?;
    let (mut written, mut next_check) = (0_u64, 0_u64);
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        if written >= next_check {
            check_disk_space(folder, BYTES_PER_CHECK, bounds.disk_reserve)?;
            next_check = written + BYTES_PER_CHECK;
        }
        let read = unpacked.read(&mut buffer).map_err(failed)?;
        if read == 0 {
            break;
        }
        written += read as u64;
        if written > bounds.bytes_max {
            return Err(Error::FileTooLarge { limit: bounds.bytes_max });
        }
        let packed = packed.load(Ordering::Relaxed);
        let limit = DENSE_BYTES.max(packed.saturating_mul(RATIO_MAX));
        if encoding != FileEncoding::Identity && written > limit {
            return Err(Error::CompressionRatioTooHigh { packed, limit, ratio: RATIO_MAX });
        }
        file.write_all(&buffer[..read]).at(path)?;
    }
    file.sync_all().and_then(|()| sync_dir(folder)).at(path)?;
    Ok(written)
}

/// Reads a body piece by piece. An unexpected end is an error.
struct Pieces<B> {
    pieces: mpsc::Receiver<Option<B>>,
    piece: Option<B>,
    offset: usize,
    over: bool,
    packed: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

impl<B: AsRef<[u8]>> Read for Pieces<B> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let rest = self.piece.as_ref().and_then(|piece| piece.as_ref().get(self.offset..)).unwrap_or_default();
            if !rest.is_empty() || buffer.is_empty() {
                let length = rest.len().min(buffer.len());
                buffer[..length].copy_from_slice(&rest[..length]);
                self.offset += length;
                return Ok(length);
            }
            if self.over {
                return Ok(0);
            }
            match self.pieces.blocking_recv() {
                Some(Some(piece)) => {
                    self.packed.fetch_add(piece.as_ref().len() as u64, Ordering::Relaxed);
                    (self.piece, self.offset) = (Some(piece), 0);
                }
                Some(None) => self.over = true,
                None => {
                    self.broken.store(true, Ordering::Relaxed);
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    const BOUNDS: UploadBounds = UploadBounds { bytes_max: 200 << 20, disk_reserve: 0, silence_max: SILENCE_MAX };

    async fn receive_pieces(
        pieces: Vec<Result<Vec<u8>, ()>>,
        encoding: FileEncoding,
        bounds: UploadBounds,
    ) -> Result<Vec<u8>, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let upload = Uploads::new(1).begin().unwrap();
        let received = receive(stream::iter(pieces), encoding, path.clone(), (bounds, &upload)).await;
        match received {
            Ok(bytes) => {
                let content = std::fs::read(&path).unwrap();
                assert_eq!(content.len() as u64, bytes);
                Ok(content)
            }
            Err(error) => {
                assert!(!path.exists(), "a refused upload must leave no file behind");
                Err(error)
            }
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn pieces(bytes: &[u8], size: usize) -> Vec<Result<Vec<u8>, ()>> {
        bytes.chunks(size).map(|piece| Ok(piece.to_vec())).collect()
    }

    #[tokio::test]
    async fn files_are_decompressed_for_any_chunk_size() {
        let text = "Дождь идёт.\n雨が降る。\n".repeat(5_000).into_bytes();
        let packed = [
            (FileEncoding::Identity, text.clone()),
            (FileEncoding::Gzip, gzip(&text)),
            (FileEncoding::Gzip, [gzip(&text[..999]), gzip(&text[999..])].concat()),
            (FileEncoding::Zstd, zstd::encode_all(&text[..], 3).unwrap()),
        ];
        for (encoding, body) in packed {
            for size in [7, 4_096, 1 << 20] {
                assert_eq!(receive_pieces(pieces(&body, size), encoding, BOUNDS).await.unwrap(), text, "{encoding:?} {size}");
            }
        }
        assert_eq!(receive_pieces(Vec::new(), FileEncoding::Identity, BOUNDS).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn an_incomplete_or_undecodable_body_is_refused() {
        let text = "une phrase\n".repeat(1_000).into_bytes();
        let mut broken = pieces(&text, 100);
        broken.truncate(5);
        broken.push(Err(()));
        let error = receive_pieces(broken, FileEncoding::Identity, BOUNDS).await.unwrap_err();
        assert!(matches!(error, Error::BodyIncomplete), "{error:?}");
        for (encoding, body) in [(FileEncoding::Gzip, gzip(&text)), (FileEncoding::Zstd, zstd::encode_all(&text[..], 3).unwrap())]
        {
            let half = receive_pieces(pieces(&body[..body.len() - 5], 10), encoding, BOUNDS).await.unwrap_err();
            assert!(matches!(half, Error::Encoding { .. }), "{half:?}");
            let plain = receive_pieces(pieces(&text, 10), encoding, BOUNDS).await.unwrap_err();
            assert!(matches!(plain, Error::Encoding { .. }), "{plain:?}");
        }
    }

    #[tokio::test]
    async fn a_silent_upload_times_out_as_incomplete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let silent = stream::iter([Ok::<_, ()>(b"half of".to_vec())]).chain(stream::pending());
        let bounds = UploadBounds { silence_max: Duration::from_millis(20), ..BOUNDS };
        let upload = Uploads::new(1).begin().unwrap();
        let error = receive(silent, FileEncoding::Identity, path.clone(), (bounds, &upload)).await.unwrap_err();
        assert!(matches!(error, Error::BodyIncomplete), "{error:?}");
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_slow_upload_loses_its_slot_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let uploads = Uploads::with_pace(1, Duration::ZERO);
        let slow = uploads.begin().unwrap();
        let path = folder.path().join("slow");
        let drops = stream::iter([Ok::<_, ()>(b"a drop".to_vec())]).chain(stream::pending());
        let receiving = receive(drops, FileEncoding::Identity, path.clone(), (BOUNDS, &slow));
        let next = async { uploads.begin().map(drop) };
        let (received, next) = tokio::join!(receiving, next);
        assert!(matches!(received, Err(Error::UploadEvicted)), "{received:?}");
        next.unwrap();
    }

    #[tokio::test]
    async fn an_upload_that_keeps_its_pace_keeps_its_slot() {
        let uploads = Uploads::with_pace(1, Duration::from_secs(3_600));
        let steady = uploads.begin().unwrap();
        steady.record_bytes(PACE_BYTES);
        assert!(matches!(uploads.begin(), Err(Error::Refused(LimitExceeded::Full { .. }))));
        drop(steady);
        assert!(uploads.begin().is_ok());
    }

    #[tokio::test]
    async fn a_body_that_decompresses_to_too_much_is_refused() {
        let zeros = vec![b' '; 80 << 20];
        let small = UploadBounds { bytes_max: 1_000, ..BOUNDS };
        for (encoding, body) in
            [(FileEncoding::Gzip, gzip(&zeros)), (FileEncoding::Zstd, zstd::encode_all(&zeros[..], 3).unwrap())]
        {
            let error = receive_pieces(pieces(&body, 4_096), encoding, BOUNDS).await.unwrap_err();
            assert!(matches!(error, Error::CompressionRatioTooHigh { ratio: RATIO_MAX, .. }), "{error:?}");
            let error = receive_pieces(pieces(&body, 4_096), encoding, small).await.unwrap_err();
            assert!(matches!(error, Error::FileTooLarge { limit: 1_000 }), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_full_disk_is_reported_with_its_free_space() {
        let bounds = UploadBounds { disk_reserve: u64::MAX / 2, ..BOUNDS };
        let error = receive_pieces(pieces(b"text", 10), FileEncoding::Identity, bounds).await.unwrap_err();
        assert!(matches!(error, Error::InsufficientDiskSpace { free, .. } if free > 0), "{error:?}");
    }
}
