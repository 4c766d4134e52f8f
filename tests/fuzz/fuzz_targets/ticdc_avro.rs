#![no_main]

towpath_fuzz::target!();
