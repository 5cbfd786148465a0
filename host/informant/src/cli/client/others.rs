//! The other replicas of the daemon's group: what only they know, they are asked for.

use anyhow::{Result, bail};
use serde::de::DeserializeOwned;

use super::AdminArgs;
use super::connection::AdminClient;
use super::target::{AdminServer, Origin, Target};
use crate::admin::OtherReplica;

/// Connections to the daemon and to other replicas.
pub(in crate::cli) struct Clients<'a> {
    args: &'a AdminArgs,
    target: Target,
    /// The daemon that the command is for.
    pub(in crate::cli) first: AdminClient,
}

impl<'a> Clients<'a> {
    pub(super) async fn connect(args: &'a AdminArgs, target: Target) -> Result<Self> {
        let first = AdminClient::connect(args, &target).await?;
        Ok(Self { args, target, first })
    }

    /// Connects to another replica in the way in which the daemon was reached.
    /// Errors: it cannot be reached in that way.
    pub(in crate::cli) async fn connect_to(&self, replica: &OtherReplica) -> Result<AdminClient> {
        AdminClient::connect(self.args, &self.target_of(replica)?).await
    }

    /// Connects to another replica, and reads a document there.
    pub(in crate::cli) async fn read_from<T: DeserializeOwned>(
        &self,
        replica: &OtherReplica,
        path: &str,
    ) -> Result<(AdminClient, T)> {
        let mut client = self.connect_to(replica).await?;
        let document = client.read(path).await?;
        Ok((client, document))
    }

    fn target_of(&self, replica: &OtherReplica) -> Result<Target> {
        let is_secure = matches!(self.target, Target::Server(AdminServer::Secure { .. }, _));
        match &self.target {
            Target::Pod { namespace, .. } => Ok(Target::Pod {
                namespace: namespace.clone(),
                name: Some(replica.name.clone()),
            }),
            _ if replica.address.is_empty() => bail!("its admin server listens on its own machine only"),
            // A token goes where a certificate proves who that is.
            _ if !is_secure => bail!(
                "its admin server is at https://{}: pass that with --admin, or use --pod",
                replica.address
            ),
            _ => match AdminServer::parse(&format!("https://{}", replica.address)) {
                Ok(server) => Ok(Target::Server(server, Origin::Flag)),
                Err(problem) => bail!("its address {} cannot be used: {problem}", replica.address),
            },
        }
    }
}
