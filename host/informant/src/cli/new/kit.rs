//! The kit for tests of scripts, which new plugins in JavaScript and TypeScript bring with them: it is not published.

use super::templates::File;

/// A file of `plugin-sdk/javascript`, below the folder `informant` of the new plugin.
macro_rules! kit {
    ($($path:literal,)*) => {
        &[$((
            concat!("informant/", $path),
            include_str!(concat!("../../../../../plugin-sdk/javascript/", $path)),
        ),)*]
    };
}

pub(super) const KIT: &[File] = kit![
    "prelude/errors.js",
    "prelude/exports.js",
    "prelude/http.js",
    "prelude/informant.js",
    "prelude/kube.js",
    "prelude/kv.js",
    "prelude/log.js",
    "prelude/metrics.js",
    "prelude/reconciler.js",
    "prelude/recorder.js",
    "prelude/store.js",
    "testing/children.js",
    "testing/cluster.js",
    "testing/driver.js",
    "testing/hooks.js",
    "testing/host.js",
    "testing/index.d.ts",
    "testing/index.js",
    "testing/instance.js",
    "testing/projection.js",
    "testing/realms.js",
    "testing/scenario.js",
    "testing/scenario/calls.js",
    "testing/scenario/expect.js",
    "testing/scenario/format.js",
    "testing/scenario/run.js",
    "testing/scenario/yaml.js",
    "testing/selector.js",
];
