//! Joining neighbours: an iterator that yields as few, long pieces as possible.

/// What may continue the piece before it.
pub(crate) trait Join {
    /// Takes `next` in if it begins where this ends; says whether it did.
    fn join(&mut self, next: &Self) -> bool;
}

/// Yields the items of an iterator, each with all those joined that continue it.
#[derive(Clone, Debug)]
pub(crate) struct Joined<I: Iterator> {
    items: I,
    pending: Option<I::Item>,
}

impl<I: Iterator> Joined<I> {
    pub(crate) fn new(items: I) -> Self {
        Self { items, pending: None }
    }
}

impl<I: Iterator> Iterator for Joined<I>
where
    I::Item: Join,
{
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let mut joined = self.pending.take().or_else(|| self.items.next())?;
        for next in self.items.by_ref() {
            if !joined.join(&next) {
                self.pending = Some(next);
                break;
            }
        }
        Some(joined)
    }
}
