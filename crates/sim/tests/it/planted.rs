//! Every mistake that is planted on purpose is found by the simulation, or by a model.

use goldseam_core::planted::Bug;
use goldseam_sim::swarm::first_to_find;
