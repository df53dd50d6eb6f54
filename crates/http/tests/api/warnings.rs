//! Counts the warnings of one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

struct Counting(Arc<AtomicUsize>);

impl Subscriber for Counting {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let is_ours = event.metadata().target().starts_with("fencepost");
        if is_ours && *event.metadata().level() <= Level::WARN {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Warnings and errors of ours since this was made, until it is dropped.
pub(crate) struct Warnings {
    count: Arc<AtomicUsize>,
    _guard: DefaultGuard,
}

impl Warnings {
    pub(crate) fn watch() -> Self {
        let count = Arc::new(AtomicUsize::new(0));
        let counting = Counting(Arc::clone(&count));
        Self {
            count,
            _guard: tracing::subscriber::set_default(counting),
        }
    }

    /// How many there were since the last look.
    pub(crate) fn take(&self) -> usize {
        self.count.swap(0, Ordering::SeqCst)
    }
}
