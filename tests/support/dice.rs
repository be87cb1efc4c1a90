//! Pseudo-random numbers from a seed.

/// A stream of numbers.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The stream of numbers that this seed starts.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Next number, by the SplitMix64 generator.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).expect("64 bits");
        usize::try_from(self.roll() % end).expect("64 bits")
    }

    /// Draws whether an event with this probability, in percent, happens.
    pub fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Shuffles a list.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for place in (1..list.len()).rev() {
            list.swap(place, self.below(place + 1));
        }
    }
}
