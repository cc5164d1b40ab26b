"""What is deployed, packed (`make package`): function bundles and the job's archive."""
