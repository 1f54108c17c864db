//! Blocks of a file, moved one by one and buffered in groups.
//!
//! What was written goes to the file when another group is needed, and when it is asked for; only blocks that were
//! written do, so that programs which write different blocks of one group do not undo each other's.

use pvfs_client::Region;
use pvfs_wire::Errno;

use super::Shape;

/// A file to move regions from and to.
pub trait File {
    /// Fills memory from regions; how many bytes lie before the end of the file, what is beyond being zeroed.
    fn read(&self, memory: &mut [&mut [u8]], regions: &[Region]) -> Result<u64, Errno>;
    /// Writes memory to regions.
    fn write(&self, memory: &[&[u8]], regions: &[Region]) -> Result<(), Errno>;
}

/// A file as an array of blocks.
pub struct Blocks {
    shape: Shape,
    /// The first block of the group that is buffered.
    group: Option<Vec<u64>>,
    members: Vec<Member>,
}

/// One block of the group.
struct Member {
    block: Vec<u64>,
    content: Option<Content>,
}

struct Content {
    bytes: Vec<u8>,
    /// How many of them lie before the end of the file.
    within: u64,
    is_written: bool,
}

impl Blocks {
    /// Nothing is buffered yet.
    pub fn new(shape: Shape) -> Self {
        Self { shape, group: None, members: Vec::new() }
    }

    /// The array.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Buffers so many blocks in each dimension from now on. What was written goes to the file first.
    pub fn set_buffered(&mut self, file: &impl File, blocks: &[i64]) -> Result<(), Errno> {
        let mut shape = self.shape.clone();
        shape.set_buffered(blocks)?;
        let blocks = shape.group_blocks().filter(|blocks| *blocks <= BLOCKS_MAX);
        let bytes = blocks.and_then(|blocks| blocks.checked_mul(shape.block_bytes()));
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or(Errno::ENOMEM)?;
        // What the kernel would never give is refused before the first block; it is given back at once.
        Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| Errno::ENOMEM)?;
        self.flush(file)?;
        *self = Self::new(shape);
        Ok(())
    }

    /// Reads a block; how many of its bytes lie before the end of the file.
    pub fn read(&mut self, file: &impl File, block: &[u64], to: &mut [u8]) -> Result<u64, Errno> {
        if !self.buffers() {
            return file.read(&mut [to], &self.shape.regions(block));
        }
        self.turn_to(file, block)?;
        if self.member(block).content.is_none() {
            self.fill(file)?;
        }
        let content = self.member(block).content.as_ref().expect("fill leaves no block out");
        to.copy_from_slice(&content.bytes);
        Ok(content.within)
    }

    /// Writes a block.
    pub fn write(&mut self, file: &impl File, block: &[u64], from: &[u8]) -> Result<(), Errno> {
        if !self.buffers() {
            return file.write(&[from], &self.shape.regions(block));
        }
        self.turn_to(file, block)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(from.len()).map_err(|_| Errno::ENOMEM)?;
        bytes.extend_from_slice(from);
        let content = Content { bytes, within: from.len() as u64, is_written: true };
        self.member(block).content = Some(content);
        Ok(())
    }

    /// Writes to the file what is only here, in one call. After an error it is still here.
    pub fn flush(&mut self, file: &impl File) -> Result<(), Errno> {
        let shape = &self.shape;
        let written = self.members.iter_mut().filter_map(|member| {
            let content = member.content.as_mut().filter(|content| content.is_written)?;
            Some((shape.regions(&member.block), content))
        });
        let (regions, contents): (Vec<_>, Vec<_>) = written.unzip();
        if contents.is_empty() {
            return Ok(());
        }
        let memory: Vec<&[u8]> = contents.iter().map(|content| content.bytes.as_slice()).collect();
        file.write(&memory, &regions.concat())?;
        contents.into_iter().for_each(|content| content.is_written = false);
        Ok(())
    }

    fn buffers(&self) -> bool {
        self.shape.group_blocks() != Some(1)
    }

    /// The group of a block becomes the one that is buffered.
    fn turn_to(&mut self, file: &impl File, block: &[u64]) -> Result<(), Errno> {
        let group = self.shape.group(block);
        if self.group.as_ref() == Some(&group) {
            return Ok(());
        }
        self.flush(file)?;
        let empty = |block| Member { block, content: None };
        self.members = self.shape.members(&group).into_iter().map(empty).collect();
        self.group = Some(group);
        Ok(())
    }

    fn member(&mut self, block: &[u64]) -> &mut Member {
        let group = self.group.as_ref().expect("the caller has turned to the group of the block");
        let place = self.shape.place(group, block);
        &mut self.members[place]
    }

    /// Reads all blocks of the group that are not here, in one call.
    fn fill(&mut self, file: &impl File) -> Result<(), Errno> {
        let block_bytes = self.shape.block_bytes() as usize;
        let mut missing: Vec<&mut Member> =
            self.members.iter_mut().filter(|member| member.content.is_none()).collect();
        let regions: Vec<Vec<Region>> =
            missing.iter().map(|member| self.shape.regions(&member.block)).collect();
        let mut rooms = Vec::new();
        for _ in &missing {
            let mut room = Vec::new();
            room.try_reserve_exact(block_bytes).map_err(|_| Errno::ENOMEM)?;
            room.resize(block_bytes, 0);
            rooms.push(room);
        }
        let mut memory: Vec<&mut [u8]> = rooms.iter_mut().map(Vec::as_mut_slice).collect();
        let got = file.read(&mut memory, &regions.concat())?;
        let is_whole = got == (block_bytes * missing.len()) as u64;
        for ((member, bytes), regions) in missing.iter_mut().zip(rooms).zip(&regions) {
            let mut content = Content { bytes, within: block_bytes as u64, is_written: false };
            if !is_whole {
                // The end of the file is in one of them; each is asked for its own part.
                content.within = file.read(&mut [&mut content.bytes], regions)?;
            }
            member.content = Some(content);
        }
        Ok(())
    }
}

/// Blocks of a group at most, each of which takes some hundred bytes besides its content.
const BLOCKS_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A file in memory that counts calls.
    #[derive(Default)]
    struct Memory {
        bytes: RefCell<Vec<u8>>,
        calls: RefCell<(u32, u32)>,
    }

    impl File for Memory {
        fn read(&self, memory: &mut [&mut [u8]], regions: &[Region]) -> Result<u64, Errno> {
            self.calls.borrow_mut().0 += 1;
            let file = self.bytes.borrow();
            let offsets: Vec<u64> = regions.iter().flat_map(|one| one.offset..one.end()).collect();
            let places = memory.iter_mut().flat_map(|piece| piece.iter_mut());
            let mut within = 0;
            for (to, offset) in places.zip(&offsets) {
                let byte = file.get(*offset as usize);
                *to = byte.copied().unwrap_or(0);
                within += u64::from(byte.is_some());
            }
            Ok(within)
        }

        fn write(&self, memory: &[&[u8]], regions: &[Region]) -> Result<(), Errno> {
            self.calls.borrow_mut().1 += 1;
            let mut file = self.bytes.borrow_mut();
            let offsets = regions.iter().flat_map(|one| one.offset..one.end());
            for (byte, offset) in memory.iter().flat_map(|piece| piece.iter()).zip(offsets) {
                let offset = offset as usize;
                if file.len() <= offset {
                    file.resize(offset + 1, 0);
                }
                file[offset] = *byte;
            }
            Ok(())
        }
    }

    fn blocks(buffered: &[i64]) -> Blocks {
        let shape = Shape::new(2, &[2, 3], &[4, 2]).unwrap();
        let mut blocks = Blocks::new(shape);
        blocks.set_buffered(&Memory::default(), buffered).unwrap();
        blocks
    }

    #[test]
    fn buffered_or_not_the_file_is_the_same() {
        let order = [[3, 1], [0, 0], [1, 0], [2, 1], [0, 1], [2, 0], [1, 1], [3, 0]];
        let write = |mut blocks: Blocks| {
            let file = Memory::default();
            for (number, block) in order.iter().enumerate() {
                blocks.write(&file, block, &[number as u8 + 1; 12]).unwrap();
            }
            blocks.flush(&file).unwrap();
            for (number, block) in order.iter().enumerate() {
                let mut seen = [0; 12];
                assert_eq!(blocks.read(&file, block, &mut seen), Ok(12));
                assert_eq!(seen, [number as u8 + 1; 12]);
            }
            file.bytes.into_inner()
        };
        let plain = write(blocks(&[1, 1]));
        assert_eq!(plain.len(), 96);
        for buffered in [[2, 1], [2, 2], [3, 1], [100, 100]] {
            assert_eq!(write(blocks(&buffered)), plain, "{buffered:?}");
        }
    }

    #[test]
    fn a_group_is_read_in_one_call_and_only_what_was_written_is_written() {
        let file = Memory::default();
        *file.bytes.borrow_mut() = vec![7; 96];
        let mut all = blocks(&[4, 2]);
        let mut seen = [0; 12];
        all.read(&file, &[0, 0], &mut seen).unwrap();
        all.write(&file, &[1, 1], &[1; 12]).unwrap();
        all.read(&file, &[1, 1], &mut seen).unwrap();
        assert_eq!((seen, *file.calls.borrow()), ([1; 12], (1, 0)));
        // Somebody else writes another block of the group.
        blocks(&[1, 1]).write(&file, &[2, 0], &[2; 12]).unwrap();
        all.flush(&file).unwrap();
        all.flush(&file).unwrap();
        assert_eq!(*file.calls.borrow(), (1, 2));
        blocks(&[1, 1]).read(&file, &[2, 0], &mut seen).unwrap();
        assert_eq!(seen, [2; 12]);
    }

    #[test]
    fn each_block_knows_how_much_of_it_is_before_the_end_of_the_file() {
        let file = Memory::default();
        // The first row of blocks, and two records of the next row.
        *file.bytes.borrow_mut() = vec![7; 48 + 4];
        for buffered in [[1, 1], [4, 2]] {
            let mut blocks = blocks(&buffered);
            let mut within = |block| blocks.read(&file, block, &mut [0; 12]).unwrap();
            assert_eq!((within(&[0, 0]), within(&[0, 1]), within(&[1, 1])), (12, 4, 0));
        }
    }
}
