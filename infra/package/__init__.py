"""Packs what is deployed: function bundles and the job's archive (`make package`)."""
