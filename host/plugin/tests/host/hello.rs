//! The plugin `hello`, a script or a component in JavaScript: what tests of both ask of it.

use informant_plugin_host::Plugin;

use crate::world::World;

/// What the plugin `hello` logged, with its levels.
pub(crate) fn said(world: &World) -> Vec<String> {
    let lines = world.log.lines().into_iter();
    let ours = lines.filter(|line| line.fields == " plugin=\"hello\"");
    ours.map(|line| format!("{} {}", line.level, line.message)).collect()
}

/// Waits until the plugin has nothing to do.
pub(crate) async fn idle(world: &World, plugin: &Plugin) {
    let is_idle = || {
        let stats = plugin.listener().stats();
        stats.pending + stats.in_flight + stats.syncing == 0
    };
    world.until("it to be told everything", is_idle).await;
}
