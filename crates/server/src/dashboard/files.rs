//! The built files. `cargo xtask ui` writes this list.

use super::DashboardFile;

#[rustfmt::skip]
pub(super) const FILES: &[DashboardFile] = &[
    DashboardFile {
        path: "/assets/api-B_0u6ywb.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/api-B_0u6ywb.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/api-B_0u6ywb.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/bulk-BH3geOZ3.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/bulk-BH3geOZ3.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/bulk-BH3geOZ3.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/failures-D1QBOnQm.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/failures-D1QBOnQm.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/failures-D1QBOnQm.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/inbox-kZ4ZJJfE.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/inbox-kZ4ZJJfE.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/inbox-kZ4ZJJfE.js.gz")),
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
        path: "/assets/index-PgkXLjQE.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/index-PgkXLjQE.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/index-PgkXLjQE.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/operations-98plFbo7.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/operations-98plFbo7.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/operations-98plFbo7.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/queues-CTFxRBTK.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/queues-CTFxRBTK.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/queues-CTFxRBTK.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/recoveries-DqawZ7DV.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/recoveries-DqawZ7DV.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/recoveries-DqawZ7DV.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/run-rNj9dA5j.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/run-rNj9dA5j.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/run-rNj9dA5j.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/runs-BUolRulu.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/runs-BUolRulu.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/runs-BUolRulu.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/start-CDLPiRLk.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/start-CDLPiRLk.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/start-CDLPiRLk.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/uPlot.esm-BScb58at.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/uPlot.esm-BScb58at.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/uPlot.esm-BScb58at.js.gz")),
        is_hashed: true,
    },
    DashboardFile {
        path: "/assets/virtual-Bbp6mVnF.js",
        content_type: "text/javascript; charset=utf-8",
        plain: include_bytes!("../../dashboard/assets/virtual-Bbp6mVnF.js"),
        gzip: Some(include_bytes!("../../dashboard/assets/virtual-Bbp6mVnF.js.gz")),
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
