//! Server-sent events, read as they come.

use std::mem;

/// Longest line and largest event.
const EVENT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    /// Its name; `message` if it has none.
    pub(super) name: String,
    /// What goes with it.
    pub(super) data: String,
}

/// The stream holds something that is no stream of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoStream;

/// Takes bytes, however they were cut, and gives events.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    /// The last byte ended a line: a line feed that follows belongs to it.
    returned: bool,
    name: String,
    data: String,
    has_data: bool,
}

impl Parser {
    /// The events that are complete with these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, NoStream> {
        let mut frames = Vec::new();
        for byte in bytes {
            let after_return = mem::replace(&mut self.returned, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => frames.extend(self.end_line()?),
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                return Err(NoStream);
            }
        }
        Ok(frames)
    }

    fn end_line(&mut self) -> Result<Option<Frame>, NoStream> {
        let line = String::from_utf8(mem::take(&mut self.line)).map_err(|_| NoStream)?;
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // Comments keep the connection alive; the position stands in the data.
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Option<Frame> {
        let (name, data) = (mem::take(&mut self.name), mem::take(&mut self.data));
        let name = if name.is_empty() { "message".to_owned() } else { name };
        mem::take(&mut self.has_data).then_some(Frame { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = "\u{feff}: hello\n\nid: 1\nevent: run.queued\ndata: {\"a\":\"ä€😀\"}\n\n\
        : beat\r\n\r\nevent:stalled\r\ndata:one\r\ndata: two\r\n\r\ndata\r\revent: nothing\n\n"
        .as_bytes();

    fn expected() -> Vec<Frame> {
        let frame = |name: &str, data: &str| Frame { name: name.to_owned(), data: data.to_owned() };
        vec![frame("run.queued", "{\"a\":\"ä€😀\"}"), frame("stalled", "one\ntwo"), frame("message", "")]
    }

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        for size in 1..=STREAM.len() {
            let mut parser = Parser::default();
            let frames: Vec<Frame> =
                STREAM.chunks(size).flat_map(|chunk| parser.feed(chunk).unwrap()).collect();
            assert_eq!(frames, expected(), "in pieces of {size}");
        }
    }

    #[test]
    fn what_was_not_ended_is_no_event() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(b"data: half"), Ok(vec![]));
        assert_eq!(parser.feed(b"\n"), Ok(vec![]));
        assert_eq!(parser.feed(b"\n").unwrap().len(), 1);
    }

    #[test]
    fn a_stream_without_end_is_no_stream() {
        let mut parser = Parser::default();
        let endless = vec![b'x'; EVENT_BYTES_MAX + 1];
        assert_eq!(parser.feed(&endless), Err(NoStream));
        assert_eq!(Parser::default().feed(&[0xff, b'\n']), Err(NoStream));
    }
}
