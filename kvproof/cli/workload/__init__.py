"""What `kvproof workload --tiers` and its charts need beside the replay itself."""
