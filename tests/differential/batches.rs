//! Batches of messages: the random draws, and the messages made from them.
//!
//! Everything is drawn as plain numbers that combine with any other choice, so that a failing case shrinks to fewer and
//! plainer parts.

use proptest::prelude::*;

pub use crate::captures::Message;
use crate::json::{Escapes, Json, Spacing};
use crate::mutations::{Mutation, ValueChange, mutation, null_of_envelope, of_tree, turned};
use crate::producers::{self, Connect, Did, Form, Producer, Row, Statement};
use crate::tables::{Table, TableDraw, WIDTH, table};
use crate::values::{Cell, Kind, Temper, cell};

/// Messages with their producers and tables.
#[derive(Clone, Debug)]
pub struct Batch {
    pub messages: Vec<Message>,
    pub tables: Vec<Table>,
    pub forms: Vec<Form>,
}

/// Random draws for a batch.
#[derive(Clone, Debug)]
pub struct BatchDraw {
    forms: Vec<FormDraw>,
    tables: Vec<TableDraw>,
    habits: Habits,
    /// Mutations of every message. They make an unusual form the usual one.
    quirks: Vec<Mutation>,
    statements: Vec<StatementDraw>,
}

#[derive(Clone, Debug)]
pub struct FormDraw {
    producer: Producer,
    escapes: Escapes,
    style: u8,
    connect: Connect,
}

/// Variation between the messages of a batch. Most batches repeat messages from which a template can be learned.
#[derive(Clone, Copy, Debug)]
struct Habits {
    temper: Temper,
    spacing: Spacing,
    /// True if statements insert, update and delete; otherwise nearly all do the same.
    many_kinds: bool,
    /// True if statements have up to three rows.
    many_rows: bool,
    /// True if each update changes other columns.
    many_changes: bool,
    /// True if each message has its own order of members.
    many_orders: bool,
}

#[derive(Clone, Debug)]
struct StatementDraw {
    table: u8,
    form: u8,
    did: u8,
    rows: Vec<RowDraw>,
    mutations: Vec<Mutation>,
    repeats: Repeats,
    /// True if the table's version, before or after its change, does not depend on the time.
    is_astray: bool,
}

/// Messages of a statement beside the damaged one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Repeats {
    Once,
    /// The damaged message, then the same message undamaged.
    Mended,
    /// The undamaged message before and after.
    Around,
    Twice,
}

#[derive(Clone, Debug)]
pub struct RowDraw {
    after: [u32; WIDTH],
    before: [u32; WIDTH],
    pub changed: u8,
}

/// Draws batches of up to sixty statements by these producers.
pub fn batch(producers: Vec<Producer>) -> impl Strategy<Value = BatchDraw> {
    let forms = prop::collection::vec(form(producers), 1..=3);
    let tables = prop_oneof![2 => prop::collection::vec(table(), 1..=1), 3 => prop::collection::vec(table(), 1..=4)];
    let quirks = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(of_tree(), 1..3)];
    (
        forms,
        tables,
        habits(),
        quirks,
        prop::collection::vec(statement(), 1..=60),
    )
        .prop_map(|(forms, tables, habits, quirks, statements)| BatchDraw {
            forms,
            tables,
            habits,
            quirks,
            statements,
        })
}

/// Draws one of these producers with its settings.
pub fn form(producers: Vec<Producer>) -> impl Strategy<Value = FormDraw> {
    let escapes =
        prop_oneof![4 => Just(Escapes::Least), 1 => prop::sample::select(Escapes::ALL.to_vec())];
    let connect = (0..3usize, 0..5usize, 0..3usize, 0..2usize).prop_map(
        |(decimal, time, binary, unsigned)| Connect {
            decimal,
            time,
            binary,
            unsigned,
        },
    );
    let style = prop_oneof![1 => Just(0), 1 => any::<u8>()];
    (
        prop::sample::select(producers),
        escapes,
        style,
        prop_oneof![Just(Connect::default()), connect],
    )
        .prop_map(|(producer, escapes, style, connect)| FormDraw {
            producer,
            escapes,
            style,
            connect,
        })
}

fn habits() -> impl Strategy<Value = Habits> {
    let temper = prop_oneof![Just(Temper::Calm), Just(Temper::Wild)];
    let spacing =
        prop_oneof![8 => Just(Spacing::None), 1 => prop::sample::select(Spacing::ALL.to_vec())];
    (
        temper,
        spacing,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.07),
    )
        .prop_map(
            |(temper, spacing, many_kinds, many_rows, many_changes, many_orders)| Habits {
                temper,
                spacing,
                many_kinds,
                many_rows,
                many_changes,
                many_orders,
            },
        )
}

fn statement() -> impl Strategy<Value = StatementDraw> {
    let mutations = prop_oneof![
        24 => Just(Vec::new()),
        2 => null_of_envelope().prop_map(|mutation| vec![mutation]),
        7 => prop::collection::vec(mutation(), 1),
        1 => prop::collection::vec(mutation(), 2..4),
    ];
    let repeats = prop_oneof![5 => Just(Repeats::Once), 3 => Just(Repeats::Mended), 1 => Just(Repeats::Around), 1 => Just(Repeats::Twice)];
    let choices = (any::<u8>(), any::<u8>(), any::<u8>());
    (
        choices,
        prop::collection::vec(row(), 1..=3),
        mutations,
        repeats,
        prop::bool::weighted(0.05),
    )
        .prop_map(
            |((table, form, did), rows, mutations, repeats, is_astray)| StatementDraw {
                table,
                form,
                did,
                rows,
                mutations,
                repeats,
                is_astray,
            },
        )
}

/// Draws the cells of a row, for any table.
pub fn row() -> impl Strategy<Value = RowDraw> {
    let cells = || prop::array::uniform8(any::<u32>());
    (cells(), cells(), any::<u8>()).prop_map(|(after, before, changed)| RowDraw {
        after,
        before,
        changed,
    })
}

impl BatchDraw {
    /// Makes the messages.
    pub fn make(&self) -> Batch {
        let forms: Vec<Form> = self.forms.iter().map(FormDraw::form).collect();
        let versions: Vec<[Table; 2]> = self.tables.iter().map(TableDraw::versions).collect();
        let mut messages: Vec<Message> = Vec::new();
        for (at, draw) in self.statements.iter().enumerate() {
            let table = usize::from(draw.table) % versions.len();
            let is_later = (at >= self.change_of(table)) != draw.is_astray;
            let statement = draw.statement(
                at as u64,
                &versions[table][usize::from(is_later)],
                &self.habits,
            );
            // A table has one producer, like a topic. Sometimes another one writes about it.
            let form = &forms[(table + usize::from(draw.form >= 250)) % forms.len()];
            draw.write(&statement, form, self, &mut messages);
        }
        let tables = versions.into_iter().flatten().collect();
        Batch {
            messages,
            tables,
            forms,
        }
    }

    /// Returns the index of the first statement after a table's change.
    fn change_of(&self, table: usize) -> usize {
        self.statements.len() * (2 + table) / 6
    }
}

impl FormDraw {
    pub fn form(&self) -> Form {
        Form {
            producer: self.producer,
            escapes: self.escapes,
            style: self.style,
            connect: self.connect,
        }
    }
}

impl Habits {
    fn did(&self, draw: u8) -> Did {
        match draw {
            // The other operations come last, so that they shrink to an insert.
            240.. => Did::Other(draw - 240),
            0..220 if !self.many_kinds => Did::Insert,
            0..100 => Did::Insert,
            100..190 => Did::Update,
            _ => Did::Delete,
        }
    }
}

impl StatementDraw {
    fn statement<'t>(&self, at: u64, table: &'t Table, habits: &Habits) -> Statement<'t> {
        let rows = if habits.many_rows {
            &self.rows[..]
        } else {
            &self.rows[..1]
        };
        let mask = |row: &RowDraw| {
            if habits.many_changes {
                row.changed
            } else {
                table.updated
            }
        };
        let rows = rows
            .iter()
            .map(|row| {
                row.row(table, mask(row), |kind, draw| {
                    cell(kind, draw, habits.temper)
                })
            })
            .collect();
        // In some batches nearly all statements are updates.
        let did = match habits.did(self.did) {
            Did::Insert if !habits.many_kinds && table.updated.is_multiple_of(3) => Did::Update,
            did => did,
        };
        Statement {
            table,
            did,
            rows,
            at,
        }
    }

    /// Adds the statement's messages. The mutations change the first one.
    fn write(
        &self,
        statement: &Statement<'_>,
        form: &Form,
        batch: &BatchDraw,
        messages: &mut Vec<Message>,
    ) {
        let habits = &batch.habits;
        let key = producers::key(statement, form).map(|key| key.render(Spacing::None).into_bytes());
        for (at, mut json) in producers::write(statement, form).into_iter().enumerate() {
            batch
                .quirks
                .iter()
                .for_each(|quirk| quirk.change_tree(&mut json));
            if habits.many_orders {
                turned(u16::from(self.did)).change_tree(&mut json);
            }
            let plain = Message {
                key: key.clone(),
                value: Some(json.render(habits.spacing).into_bytes()),
            };
            if at > 0 || self.mutations.is_empty() {
                messages.push(plain);
                continue;
            }
            let damaged = self.damaged(json, habits, &key, messages);
            match self.repeats {
                Repeats::Once => messages.push(damaged),
                Repeats::Mended => messages.extend([damaged, plain]),
                Repeats::Around => messages.extend([plain.clone(), damaged, plain]),
                Repeats::Twice => messages.extend([damaged.clone(), damaged]),
            }
        }
    }

    fn damaged(
        &self,
        mut json: Json,
        habits: &Habits,
        key: &Option<Vec<u8>>,
        messages: &[Message],
    ) -> Message {
        self.mutations
            .iter()
            .for_each(|mutation| mutation.change_tree(&mut json));
        let spacing = self
            .mutations
            .iter()
            .find_map(Mutation::spacing)
            .unwrap_or(habits.spacing);
        let mut text = json.render(spacing).into_bytes();
        self.mutations
            .iter()
            .for_each(|mutation| mutation.change_text(&mut text));
        let change: Option<ValueChange> = self.mutations.iter().find_map(Mutation::value_change);
        let before = messages.last().and_then(|message| message.value.as_deref());
        let value = change.map_or(Some(text.clone()), |change| change.apply(text, before));
        Message {
            key: key.clone(),
            value,
        }
    }
}

impl RowDraw {
    /// Returns the row. An update changes the columns in `mask`.
    pub fn row(&self, table: &Table, mask: u8, cell: impl Fn(Kind, u32) -> Cell) -> Row {
        let cells = |draws: &[u32; WIDTH]| -> Vec<Cell> {
            table
                .columns
                .iter()
                .zip(draws)
                .map(|(column, draw)| cell(column.declared.kind, *draw))
                .collect()
        };
        let changed: Vec<bool> = (0..table.columns.len())
            .map(|at| mask >> at & 1 == 1)
            .collect();
        let (after, drawn) = (cells(&self.after), cells(&self.before));
        let before = drawn
            .into_iter()
            .zip(&after)
            .zip(&changed)
            .map(|((before, after), changed)| if *changed { before } else { after.clone() });
        Row {
            before: before.collect(),
            after,
            changed,
        }
    }
}

/// Returns undamaged messages of one form: a producer's usual messages.
pub fn alike(producer: Producer, count: usize) -> Vec<Message> {
    let columns = ["id", "total", "name", "updated_at", "placed_at"]
        .into_iter()
        .zip([0, 3, 1, 5, 4]);
    let columns = columns
        .map(|(name, kind)| crate::tables::Column {
            name,
            declared: &crate::values::TYPES[kind],
        })
        .collect();
    let table = Table {
        database: "shop",
        name: "orders",
        columns,
        keys: 1,
        updated: 0b10,
    };
    let form = Form {
        producer,
        escapes: Escapes::Least,
        style: 0,
        connect: Connect::default(),
    };
    let message = |at: usize| {
        let cells = |seed: usize| {
            table
                .columns
                .iter()
                .map(|column| cell(column.declared.kind, (seed * 13 % 997) as u32, Temper::Calm))
                .collect()
        };
        let row = Row {
            before: cells(at),
            after: cells(at),
            changed: vec![false; table.columns.len()],
        };
        let statement = Statement {
            table: &table,
            did: Did::Insert,
            rows: vec![row],
            at: at as u64,
        };
        let value = producers::write(&statement, &form)
            .remove(0)
            .render(Spacing::None)
            .into_bytes();
        Message {
            key: None,
            value: Some(value),
        }
    };
    (0..count).map(message).collect()
}
