//! Layers of changes read as one state: of each key the newest layer decides, a deletion hides.
//!
//! ```text
//! newest   b=2      d=x      x: deleted here
//!          a=1      d=4 e=5
//! oldest   a=0 c=3  d=0      result: a=1 b=2 c=3 e=5
//! ```

use super::batch::Change;
use super::error::StoreError;
use super::view::Entry;

/// The changes of one layer in ascending key order, each key at most once.
pub(crate) type Layer<'v> = Box<dyn Iterator<Item = Result<Change, StoreError>> + Send + 'v>;

/// The merge of layers, the newest first.
pub(crate) struct Merge<'v> {
    layers: Vec<Layer<'v>>,
    heads: Vec<Option<Change>>,
    failure: Option<StoreError>,
}

impl<'v> Merge<'v> {
    /// Merges `layers`, given newest first.
    pub(crate) fn new(layers: Vec<Layer<'v>>) -> Self {
        let heads = Vec::with_capacity(layers.len());
        let mut merge = Self { layers, heads, failure: None };
        for layer in 0..merge.layers.len() {
            let head = merge.read(layer);
            merge.heads.push(head);
        }
        merge
    }

    /// The change of the smallest key, from the newest layer that has it; the others' are dropped.
    fn next_change(&mut self) -> Option<Change> {
        let newest = self.newest_of_smallest_key()?;
        let change = self.advance(newest)?;
        for older in newest + 1..self.heads.len() {
            if self.heads[older].as_ref().is_some_and(|head| head.key == change.key) {
                self.advance(older);
            }
        }
        Some(change)
    }

    fn newest_of_smallest_key(&self) -> Option<usize> {
        let heads = self.heads.iter().enumerate();
        let present = heads.filter_map(|(layer, head)| head.as_ref().map(|head| (layer, head)));
        present.min_by(|(_, a), (_, b)| a.key.cmp(&b.key)).map(|(layer, _)| layer)
    }

    fn advance(&mut self, layer: usize) -> Option<Change> {
        let next = self.read(layer);
        std::mem::replace(&mut self.heads[layer], next)
    }

    fn read(&mut self, layer: usize) -> Option<Change> {
        match self.layers[layer].next()? {
            Ok(change) => Some(change),
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<Entry, StoreError>;

    /// A failure ends the scan: what an unreadable layer would hide is unknown.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(error) = self.failure.take() {
                self.heads.clear();
                return Some(Err(error));
            }
            let change = self.next_change()?;
            if let Some(value) = change.value {
                return Some(Ok((change.key, value)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(changes: &[(&str, Option<&str>)]) -> Layer<'static> {
        let changes: Vec<_> = changes
            .iter()
            .map(|(key, value)| Change { key: (*key).into(), value: value.map(Into::into) })
            .collect();
        Box::new(changes.into_iter().map(Ok))
    }

    fn unreadable() -> Layer<'static> {
        let reason = "a test".to_owned();
        Box::new(std::iter::once_with(|| Err(StoreError::Suspect { reason })))
    }

    #[test]
    fn the_newest_layer_decides_and_deletions_hide() {
        let merge = Merge::new(vec![
            layer(&[("b", Some("2")), ("d", None)]),
            layer(&[("a", Some("1")), ("d", Some("4")), ("e", Some("5"))]),
            layer(&[("a", Some("0")), ("c", Some("3")), ("d", Some("0"))]),
        ]);
        let read: Vec<_> = merge
            .map(|entry| entry.unwrap())
            .map(|(k, v)| String::from_utf8([k, v].concat()).unwrap())
            .collect();
        assert_eq!(read, ["a1", "b2", "c3", "e5"]);
    }

    #[test]
    fn a_failing_layer_ends_the_scan_with_its_error() {
        let mut merge = Merge::new(vec![layer(&[("a", Some("1"))]), unreadable()]);
        assert!(merge.next().unwrap().is_err());
        assert!(merge.next().is_none());
    }
}
