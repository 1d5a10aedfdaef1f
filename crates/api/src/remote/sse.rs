//! An incremental parser of server-sent events.

use std::mem;

/// Maximum size of a line or an event.
const EVENT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    /// The name, or `message` if the stream gives none.
    pub(super) name: String,
    pub(super) data: String,
}

/// The bytes are not a stream of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvalidStream;

/// Turns chunks of bytes into events.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    returned: bool,
    name: String,
    data: String,
    has_data: bool,
}

impl Parser {
    /// Adds a chunk and returns the events that it completes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, InvalidStream> {
        let mut frames = Vec::new();
        for byte in bytes {
            let after_return = mem::replace(&mut self.returned, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => frames.extend(self.end_line()?),
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                return Err(InvalidStream);
            }
        }
        Ok(frames)
    }

    fn end_line(&mut self) -> Result<Option<Frame>, InvalidStream> {
        let line = String::from_utf8(mem::take(&mut self.line)).map_err(|_| InvalidStream)?;
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
            // Comments keep the connection alive. The id is ignored because the data holds the position.
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Option<Frame> {
        let data = mem::take(&mut self.data);
        let name = match mem::take(&mut self.name) {
            name if name.is_empty() => "message".to_owned(),
            name => name,
        };
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
    fn chunk_boundaries_do_not_change_the_events() {
        for size in 1..=STREAM.len() {
            let mut parser = Parser::default();
            let frames: Vec<Frame> =
                STREAM.chunks(size).flat_map(|chunk| parser.feed(chunk).unwrap()).collect();
            assert_eq!(frames, expected(), "chunks of {size} bytes");
        }
    }

    #[test]
    fn an_unfinished_event_is_not_delivered() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(b"data: half"), Ok(vec![]));
        assert_eq!(parser.feed(b"\n"), Ok(vec![]));
        assert_eq!(parser.feed(b"\n").unwrap().len(), 1);
    }

    #[test]
    fn an_oversized_or_non_utf8_stream_is_invalid() {
        let mut parser = Parser::default();
        let endless = vec![b'x'; EVENT_BYTES_MAX + 1];
        assert_eq!(parser.feed(&endless), Err(InvalidStream));
        assert_eq!(Parser::default().feed(&[0xff, b'\n']), Err(InvalidStream));
    }
}
