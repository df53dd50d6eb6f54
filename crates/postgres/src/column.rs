//! Columns that are sent as arrays.

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

/// A column in which most batches have nothing. Then it goes as an empty array, and UNNEST pads it
/// with nulls: most of the cost of a wide statement is in arrays of nulls.
#[derive(Debug)]
pub(crate) struct Sparse<T> {
    cells: Vec<Option<T>>,
    filled: bool,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self {
            cells: vec![],
            filled: false,
        }
    }
}

impl<T> Sparse<T> {
    pub(crate) fn push(&mut self, cell: Option<T>) {
        self.filled |= cell.is_some();
        self.cells.push(cell);
    }

    /// Whether any row has something here.
    pub(crate) const fn is_filled(&self) -> bool {
        self.filled
    }

    pub(crate) fn cells(&self) -> &[Option<T>] {
        &self.cells
    }
}

impl Sparse<bool> {
    /// False is absent: SQL must take a null for it.
    pub(crate) fn mark(&mut self, flag: bool) {
        self.push(flag.then_some(true));
    }
}

impl<T: ToSql> ToSql for Sparse<T> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let sent: &[Option<T>] = if self.filled { &self.cells } else { &[] };
        sent.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <&[Option<T>]>::accepts(ty)
    }

    fn encode_format(&self, ty: &Type) -> Format {
        self.cells.encode_format(ty)
    }

    to_sql_checked!();
}
