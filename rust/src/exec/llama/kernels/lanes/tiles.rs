//! Products by tiles: 16 tokens' bytes by those of 16 rows of weights at once, as AMX computes them.
//!
//! The integers are the same as those of [`Lanes::dots`](super::Lanes::dots) and [`Lanes::scaled_dots`](super::Lanes::scaled_dots). For
//! the latter, scales are multiplied into the weights before, which makes integers of 16 bits, and low and high bytes of these are
//! multiplied apart.

/// Tokens that are multiplied together: two tiles of 16.
pub(in super::super) const TOKENS: usize = 32;
/// Rows of a tile, and vectors of a panel's weights in one.
pub(super) const SIDE: usize = 16;
/// Tiles for 256 weights, of 64 each.
pub(super) const STEPS: usize = 4;

/// 64 bytes, or an integer of 32 bits for each of 16 rows.
#[repr(C, align(64))]
pub(in super::super) struct Vector(pub(super) [i32; SIDE]);

/// 256 weights of 16 rows as integers of 16 bits, split into unsigned low bytes and signed high bytes. Byte i of lane r in vector j
/// belongs to weight 4j + i of row r.
#[repr(C)]
pub(in super::super) struct Scaled {
    pub(super) low: [Vector; SIDE * STEPS],
    pub(super) high: [Vector; SIDE * STEPS],
}

/// Sums of products, of 16 rows for each token.
#[repr(C)]
pub(in super::super) struct Products(pub(super) [Vector; TOKENS]);

/// What multiplies tiles.
///
/// # Safety
/// All methods: the processor has what they need, and between [`begin`](Tiles::begin) and [`end`](Tiles::end) the thread does
/// nothing else with tiles.
pub(in super::super) trait Tiles {
    /// Whether there are tiles.
    const ARE_HERE: bool = true;

    /// Whether it pays for so many tokens.
    fn pay(tokens: usize) -> bool {
        Self::ARE_HERE && tokens >= TOKENS
    }

    /// `block`: weights that are multiplied at a time, 32 or 256.
    unsafe fn begin(block: usize);
    unsafe fn end();

    /// Multiplies the bytes of a panel of 256 weights by their groups' scales; products are within 16 bits. `scales` has two scales for
    /// every 32 weights.
    unsafe fn scale(weights: *const [Vector; 8], scales: *const [Vector; 2], group: usize, to: *mut Scaled);

    /// Products of 256 weights with the bytes of [`TOKENS`] tokens, which are `stride` bytes apart.
    unsafe fn multiply(weights: *const Scaled, activations: *const u8, stride: usize, to: *mut Products);

    /// The same of 32 weights, which are bytes without sign.
    unsafe fn multiply_bytes(
        weights: *const [Vector; 8],
        activations: *const u8,
        stride: usize,
        to: *mut Products,
    );
}

/// None.
pub(in super::super) struct NoTiles;

impl Tiles for NoTiles {
    const ARE_HERE: bool = false;

    unsafe fn begin(_: usize) {}
    unsafe fn end() {}
    unsafe fn scale(_: *const [Vector; 8], _: *const [Vector; 2], _: usize, _: *mut Scaled) {}
    unsafe fn multiply(_: *const Scaled, _: *const u8, _: usize, _: *mut Products) {}
    unsafe fn multiply_bytes(_: *const [Vector; 8], _: *const u8, _: usize, _: *mut Products) {}
}
