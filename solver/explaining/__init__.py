"""Why there is no plan and what would make one; why this plan and not another."""
