//! Sets of small numbers, as bits.

/// Which of some numbered things hold.
pub(crate) type Bits = Vec<u64>;

pub(crate) fn bits(holds: impl IntoIterator<Item = bool>) -> Bits {
    let mut bits = Bits::new();
    for (i, holds) in holds.into_iter().enumerate() {
        if i % 64 == 0 {
            bits.push(0);
        }
        bits[i / 64] |= u64::from(holds) << (i % 64);
    }
    bits
}

pub(crate) fn has(bits: &Bits, i: usize) -> bool {
    bits[i / 64] >> (i % 64) & 1 == 1
}

/// Whether all that hold in the first hold in the second.
pub(crate) fn is_within(a: &Bits, b: &Bits) -> bool {
    a.iter().zip(b).all(|(a, b)| a & !b == 0)
}
