//! The event stream of the daemon, connected again whenever it ends.

use std::time::Duration;

use anyhow::Result;
use futures::stream::{self, LocalBoxStream, StreamExt as _};

use crate::cli::client::{AdminArgs, AdminClient, ObjectLines};
use crate::cli::output;

/// What is asked for.
const PATH: &str = "/api/v1/stream?topics=overview,plugins,sources";

/// After a failure, the next attempt is so much later: 2 s.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// After a stream that ended as it should, which it does every 5 min: 200 ms.
const CONTINUE_AFTER: Duration = Duration::from_millis(200);

/// What has happened.
#[derive(Debug)]
pub(super) enum Update {
    /// The daemon sent a message.
    Message(Message),
    /// The connection is there again.
    Connected,
    /// It is not there, and the next attempt follows on its own.
    Lost(String),
}

/// A message of one topic.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) topic: String,
    /// A JSON document.
    pub(super) data: Vec<u8>,
}

/// A connection to the daemon, and the way to another one.
pub(super) struct Link<'a> {
    args: &'a AdminArgs,
    stream: Option<ObjectLines>,
    /// Keeps the connection open.
    client: Option<AdminClient>,
    wait: Duration,
}

impl<'a> Link<'a> {
    /// Asks `client` for the stream.
    pub(super) async fn open(args: &'a AdminArgs, client: &mut AdminClient) -> Result<Link<'a>> {
        Ok(Link {
            args,
            stream: Some(client.lines(PATH).await?),
            client: None,
            wait: CONTINUE_AFTER,
        })
    }

    /// What happens, without end. An update that is waited for is not lost if something else is done first.
    pub(super) fn updates(self) -> LocalBoxStream<'a, Update> {
        stream::unfold(self, async |mut link| Some((link.next().await, link))).boxed_local()
    }

    async fn next(&mut self) -> Update {
        loop {
            let Some(lines) = &mut self.stream else {
                tokio::time::sleep(self.wait).await;
                self.wait = RETRY_AFTER;
                match self.connect().await {
                    Ok(()) => return Update::Connected,
                    Err(error) => return Update::Lost(output::chain(&error)),
                }
            };
            match message(lines).await {
                Ok(Some(message)) => return Update::Message(message),
                Ok(None) => (self.stream, self.wait) = (None, CONTINUE_AFTER),
                Err(error) => {
                    (self.stream, self.wait) = (None, RETRY_AFTER);
                    return Update::Lost(output::chain(&error));
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<()> {
        let mut client = self.args.connect().await?;
        // They were shown for the first connection; now they would be written across the screen.
        client.mute_warnings();
        self.stream = Some(client.lines(PATH).await?);
        self.client = Some(client);
        Ok(())
    }
}

/// The next message of server-sent events. None: the stream has ended.
async fn message(lines: &mut ObjectLines) -> Result<Option<Message>> {
    let mut message = Message::default();
    while let Some(line) = lines.next_line().await? {
        if let Some(topic) = line.strip_prefix(b"event: ") {
            message.topic = String::from_utf8_lossy(topic).into_owned();
        } else if let Some(data) = line.strip_prefix(b"data: ") {
            message.data = data.to_owned();
        } else if line.is_empty() && !message.data.is_empty() {
            return Ok(Some(message));
        }
    }
    Ok(None)
}
