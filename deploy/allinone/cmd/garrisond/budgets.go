package main

import (
	"flag"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/services/registry"
)

// budgets defines the flags that bound what each writer may have recorded.
func (f *flags) budgets(fs *flag.FlagSet) {
	config.Checked(fs, &f.tuning.ServerBudget, "server-budget", registry.DefaultServerBudget,
		"how many `BYTES` of facts one server may cause in a day; beyond, it is quarantined",
		config.From[uint64](registry.LeastServerBudget))
	config.Checked(fs, &f.tuning.UserBudgets.User, "user-budget", registry.DefaultUserBudget,
		"how many `BYTES` of facts one user may cause in a day; beyond, requests and intents are refused",
		config.From[uint64](registry.LeastServerBudget))
	config.Checked(fs, &f.tuning.UserBudgets.Reporter, "reporter-budget", registry.DefaultReporterBudget,
		"how many `BYTES` of facts one reporter of external instances may cause in a day",
		config.From[uint64](registry.LeastServerBudget))
}
