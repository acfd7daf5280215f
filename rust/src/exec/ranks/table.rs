//! The table of what lies on which rank.

/// What a model's ranks share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shard {
    /// Bytes of all weights.
    pub bytes: u64,
    /// Whether whole layers are shared out.
    pub layers: bool,
}

impl Shard {
    /// One rank's part in words.
    pub(super) fn part(self, ranks: usize) -> String {
        let of = if self.layers { "the layers of " } else { "" };
        format!("1/{ranks} of {of}{:.1} MiB", self.bytes as f64 / f64::from(1 << 20))
    }
}

/// A line.
pub(super) struct Row {
    pub(super) rank: usize,
    pub(super) device: String,
    pub(super) target: Option<String>,
    pub(super) draft: Option<String>,
    pub(super) memory: Option<String>,
}

/// Memory of a rank of this machine.
pub(super) fn resident(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Memory of a device: free and total bytes.
pub(super) fn free((free, total): (u64, u64)) -> String {
    format!("{} of {} MiB free", free >> 20, total >> 20)
}

/// Head and rows, in columns.
pub(super) fn print(rows: impl Iterator<Item = Row>) -> String {
    let head = ["rank", "device", "target shard", "draft shard", "memory"].map(str::to_owned);
    let cell = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let mut lines = vec![head];
    lines.extend(
        rows.map(|row| {
            [row.rank.to_string(), row.device, cell(row.target), cell(row.draft), cell(row.memory)]
        }),
    );
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..5).map(width).collect();
    let text = lines.iter().map(|line| {
        let cells: Vec<_> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    });
    text.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_their_heads() {
        let row = Row {
            rank: 0,
            device: "CPU, 1 thread, 127.0.0.1:40001".into(),
            target: Some(Shard { bytes: 46 << 20, layers: false }.part(2)),
            draft: None,
            memory: Some(resident(80 << 20)),
        };
        assert_eq!(
            print([row].into_iter()),
            "rank  device                          target shard     draft shard  memory\n\
             0     CPU, 1 thread, 127.0.0.1:40001  1/2 of 46.0 MiB  -            80 MiB"
        );
    }
}
