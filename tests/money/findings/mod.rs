//! What an attack on the way of the money once found, each as the test that failed then. `cargo xtask test money` lists
//! them; what is tested elsewhere is in its list too.

mod crowd;
mod evidence;
mod finality;
mod identity;
