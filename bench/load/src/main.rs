//! `llgtrt-load [PLAN.json]`: carries out a plan (standard input without a file) and prints its report, one line of JSON.

use llgtrt_load::{Plan, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    match measure() {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("llgtrt-load: {error}");
            ExitCode::from(2)
        }
    }
}

fn measure() -> Result<String, String> {
    let mut args = std::env::args().skip(1);
    let text = match (args.next(), args.next()) {
        (None, _) => std::io::read_to_string(std::io::stdin()).map_err(|e| e.to_string()),
        (Some(path), None) => std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}")),
        _ => return Err("usage: llgtrt-load [PLAN.json]".into()),
    }?;
    let plan: Plan = serde_json::from_str(&text).map_err(|e| format!("the plan: {e}"))?;
    let report = run(&plan)?;
    serde_json::to_string(&report).map_err(|e| e.to_string())
}
