//! The built files. `cargo xtask ui` writes this list.

use super::DashboardFile;

#[rustfmt::skip]
pub(super) const FILES: &[DashboardFile] = &[
    DashboardFile {
        path: "/assets/api-CH3gsw7b.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/api-CH3gsw7b.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/api-CH3gsw7b.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/bulk-BtvhcYXg.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/bulk-BtvhcYXg.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/bulk-BtvhcYXg.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/failures-B3iLfu3y.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/failures-B3iLfu3y.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/failures-B3iLfu3y.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/inbox-BSyyuy9m.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/inbox-BSyyuy9m.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/inbox-BSyyuy9m.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/index-C_vbDF2I.css",
        content_type: "text/css; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/index-C_vbDF2I.css"),
        gzip: Some(include_bytes!("../../dashboard/assets/index-C_vbDF2I.css.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/index-DfiBYj_o.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/index-DfiBYj_o.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/index-DfiBYj_o.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/operations-CcAAUKti.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/operations-CcAAUKti.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/operations-CcAAUKti.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/queues-D6egnNv6.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/queues-D6egnNv6.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/queues-D6egnNv6.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/recoveries-CA0J7NUd.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/recoveries-CA0J7NUd.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/recoveries-CA0J7NUd.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/run-BGlLgNWR.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/run-BGlLgNWR.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/run-BGlLgNWR.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/runs-DQk8CNsy.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/runs-DQk8CNsy.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/runs-DQk8CNsy.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/start-DANgMCO0.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/start-DANgMCO0.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/start-DANgMCO0.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/uPlot.esm-C4ecZUO0.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/uPlot.esm-C4ecZUO0.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/uPlot.esm-C4ecZUO0.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/virtual-vaS0hYbj.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/virtual-vaS0hYbj.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/virtual-vaS0hYbj.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/favicon.svg",
        content_type: "image/svg+xml",
        plain: include_bytes!("../../dashboard/favicon.svg"),
        gzip: None,
        is_hashed: false,
    },
    DashboardFile {
        path: "/",
        content_type: "text/html; charset=utf-8",
        plain: include_bytes!("../../dashboard/index.html"),
        gzip: Some(include_bytes!("../../dashboard/index.html.gz")),
        is_hashed: false,
    },
];
