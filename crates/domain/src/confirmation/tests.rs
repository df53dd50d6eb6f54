use super::*;

/// A block of a branch: its hash says both.
fn block(branch: u8, number: u64) -> Block {
    Block {
        number: Height::new(number).unwrap(),
        hash: hash(branch, number),
    }
}

fn hash(branch: u8, number: u64) -> B256 {
    let mut hash = B256::repeat_byte(branch);
    hash.0[..8].copy_from_slice(&number.to_be_bytes());
    hash
}

/// Blocks as `1:5 1:6 2:7`, by branch and height.
fn blocks(words: &str) -> Vec<Block> {
    let read = |word: &str| {
        let (branch, number) = word.split_once(':').unwrap();
        block(branch.parse().unwrap(), number.parse().unwrap())
    };
    words.split_whitespace().map(read).collect()
}

fn stretch(parent: &str, words: &str) -> Stretch {
    let blocks = blocks(words);
    let hashes = blocks.iter().map(|block| block.hash).collect();
    Stretch::new(self::blocks(parent)[0].hash, blocks[0].number, hashes).unwrap()
}

fn list(words: &str) -> List<()> {
    let listed = |block| Listed {
        block,
        parent: None,
        from: (),
    };
    List(blocks(words).into_iter().map(listed).collect())
}

/// The transaction is in block 1:5. Its list, the chain from its parent on, and what is published.
fn check(list: &str, chain: (&str, &str), expected: &str) {
    let chain = stretch(chain.0, chain.1);
    let said = match Publish::after(&self::list(list), block(1, 5), &chain, 4) {
        Publish::Nothing => "nothing".to_owned(),
        Publish::Append(blocks) => format!("append {}", spell(&blocks)),
        Publish::Replace(blocks) => format!("replace {}", spell(&blocks)),
    };
    assert_eq!(said, expected, "{list:?} on {chain:?}");
}

fn spell(stretch: &Stretch) -> String {
    let spelled = |branch: u8, n: u64| format!("{branch}:{n}");
    let words: Vec<String> = stretch
        .blocks()
        .map(|(block, parent)| {
            let branch = block.hash.0[31];
            let below = block.number.get() - 1;
            assert_eq!(parent, hash(parent.0[31], below), "the one below it");
            spelled(branch, block.number.get())
        })
        .collect();
    words.join(" ")
}

#[test]
fn what_readers_lack_is_appended_and_what_was_replaced_replaces_all() {
    let straight = ("1:3", "1:4 1:5 1:6 1:7 1:8");
    check("", straight, "append 1:6 1:7 1:8");
    check("1:6", straight, "append 1:7 1:8");
    check("1:6 1:7 1:8", straight, "nothing");
    // Blocks that begin right above its own are enough, and no more are published than the list may hold.
    check("", ("1:5", "1:6 1:7"), "append 1:6 1:7");
    check(
        "1:6 1:7",
        ("1:5", "1:6 1:7 1:8 1:9 1:10 1:11"),
        "append 1:8 1:9",
    );
    check(
        "1:6 1:7 1:8 1:9",
        ("1:5", "1:6 1:7 1:8 1:9 1:10"),
        "nothing",
    );
    // A fork above it, longer, as long, and shorter than what was published.
    let fork = ("1:5", "1:6 2:7 2:8");
    check("1:6 1:7", fork, "replace 1:6 2:7 2:8");
    check("1:6 1:7 1:8", fork, "replace 1:6 2:7 2:8");
    check("1:6 1:7 1:8 1:9", fork, "replace 1:6 2:7 2:8");
    check("1:6 2:7 2:8", straight, "replace 1:6 1:7 1:8");
    check("1:6", fork, "append 2:7 2:8");
    // Whoever is behind does not unsay what it has not got to.
    check("1:6 1:7 1:8", ("1:4", "1:5 1:6"), "nothing");
    check("1:6 1:7 1:8", ("1:4", "1:5"), "nothing");
    // Its own block was replaced, is not yet there, or is below what is known.
    check("1:6", ("1:4", "2:5 2:6"), "nothing");
    check("1:6", ("2:5", "2:6 2:7"), "nothing");
    check("", ("1:2", "1:3 1:4"), "nothing");
    check("1:6", ("1:7", "1:8 1:9"), "nothing");
}

#[test]
fn a_list_that_an_older_version_left_spliced_or_with_holes_is_replaced() {
    let chain = ("1:5", "1:6 1:7 1:8");
    check("1:7", chain, "replace 1:6 1:7 1:8");
    check("1:6 1:8", chain, "replace 1:6 1:7 1:8");
    check("1:6 2:7 1:7 1:8", chain, "replace 1:6 1:7 1:8");
}

fn told(words: &str) -> Event {
    let event = Event::new(Kind::Confirmations);
    let (parent, words) = words.split_once(' ').unwrap();
    event.confirmations(stretch(parent, words))
}

/// An event of a version that named one block.
fn old(word: &str) -> Event {
    Event::new(Kind::Confirmations).block(blocks(word)[0])
}

fn replay(events: &[Event], expected: &str) {
    let mut list = List::empty();
    for (place, event) in events.iter().enumerate() {
        list.read(event, place);
    }
    let found: Vec<Block> = list.blocks().iter().map(|listed| listed.block).collect();
    assert_eq!(found, blocks(expected), "{events:?}");
}

#[test]
fn events_alone_give_the_list() {
    let receipt = || Event::new(Kind::Receipt).block(block(1, 5));
    let gone = || Event::new(Kind::Confirmations).block(block(1, 5)).fork();
    let undone = || Event::new(Kind::Stuck).block(block(1, 5)).fork();
    replay(&[receipt()], "");
    replay(
        &[receipt(), told("1:5 1:6 1:7"), told("1:7 1:8")],
        "1:6 1:7 1:8",
    );
    let fork = told("1:5 1:6 2:7").fork();
    replay(&[receipt(), told("1:5 1:6 1:7 1:8"), fork], "1:6 2:7");
    replay(&[receipt(), told("1:5 1:6"), receipt()], "");
    replay(&[receipt(), told("1:5 1:6"), gone()], "");
    replay(&[receipt(), told("1:5 1:6"), undone()], "");
    let ended = Event::new(Kind::Confirmed).block(block(1, 5));
    replay(&[receipt(), told("1:5 1:6"), ended], "1:6");
    // One block each, as older versions wrote: a fork went on where it began.
    let straight = [receipt(), old("1:6"), old("1:7"), old("1:8")];
    replay(&straight, "1:6 1:7 1:8");
    let spliced = [straight.as_slice(), &[old("2:7"), old("2:8"), old("2:9")]].concat();
    replay(&spliced, "1:6 2:7 2:8 2:9");
    replay(
        &[spliced.as_slice(), &[told("2:9 2:10")]].concat(),
        "1:6 2:7 2:8 2:9 2:10",
    );
    replay(&[spliced.as_slice(), &[gone()]].concat(), "");
}

#[test]
fn a_column_is_read_back_only_beside_the_block_it_was_written_with() {
    let written = stretch("1:5", "1:6 1:7 2:8");
    let column = written.column();
    assert_eq!(column.len(), 4 * 32);
    let newest = Some(block(2, 8));
    assert_eq!(Stretch::from_column(&column, newest), Ok(written));
    for (column, newest) in [
        (&column[..], None),
        (&column[..], Some(block(1, 8))),
        (&column[..], Some(block(2, 1))),
        (&column[1..], newest),
        (&column[..32], newest),
        (&[], newest),
    ] {
        let read = Stretch::from_column(column, newest);
        assert!(read.is_err(), "{column:?} {newest:?}");
    }
}

#[test]
fn a_stretch_is_never_empty_nor_beyond_all_heights() {
    assert_eq!(Stretch::new(B256::ZERO, Height::MAX, vec![]), None);
    let two = vec![B256::ZERO; 2];
    assert_eq!(Stretch::new(B256::ZERO, Height::MAX, two), None);
}
