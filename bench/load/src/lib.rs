//! A load client for OpenAI-compatible servers, light enough to share two cores with the server that it measures.
//!
//! One [`Plan`] is one measurement: bodies, how they arrive, and what counts as good. [`run()`] carries it out in one
//! thread and gives a [`Report`]; answers go to a file, one line of JSON each, for whoever validates them afterwards.

pub mod answer;
pub mod drive;
pub mod plan;
pub mod report;
pub mod wire;

pub use plan::Plan;
pub use report::Report;

/// Carries out a plan; must be called outside of a tokio runtime.
///
/// # Errors
/// Plans that cannot be carried out and files that cannot be read or written. What servers do wrong is in the report.
pub fn run(plan: &Plan) -> Result<Report, String> {
    let bodies = plan.bodies()?;
    let target = plan.target()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("the runtime: {e}"))?;
    let measured = runtime.block_on(drive::drive(plan, target, bodies));
    plan.write_answers(&measured.answers)?;
    Ok(Report::new(plan, &measured))
}
