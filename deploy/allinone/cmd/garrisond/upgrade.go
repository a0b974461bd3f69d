package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"time"

	"github.com/garrison-fleet/garrison/deploy/allinone/upgrade"
	"github.com/garrison-fleet/garrison/pkg/config"
)

// upgradeFlags are the flags of garrisond upgrade.
type upgradeFlags struct {
	upgrade.Upgrader
	plan, show, back, finish bool
}

func (f *upgradeFlags) define(fs *flag.FlagSet) {
	fs.BoolVar(&f.plan, "plan", false, "print what would be done, and change nothing")
	fs.BoolVar(&f.show, "show", false, "print the last upgrade")
	fs.BoolVar(&f.back, "back", false, "go back to the program before the last upgrade")
	fs.BoolVar(&f.finish, "finish", false, "finish the last upgrade: delete its backup and the program before it")
	fs.StringVar(&f.Reason, "m", "", "why, as a `TEXT` for the record")
	config.Checked(fs, &f.Unit, "unit", "garrisond.service", "the `UNIT` of systemd that runs garrisond", config.Text)
	config.Checked(fs, &f.Dir, "record", "/var/lib/garrisond-upgrade", "a `DIRECTORY` of root for the record, the "+
		"backup and the program before", config.Text)
	config.Checked(fs, &f.Within, "within", 10*time.Minute, "how long a program may take until it serves",
		config.Lasting(time.Second))
	config.Checked(fs, &f.Soak, "soak", 10*time.Second, "how long it must serve then", config.Lasting(time.Second))
}

func (f *upgradeFlags) run(ctx context.Context, data string, stdout io.Writer) error {
	u := f.Upgrader
	u.Data, u.Log = data, stdout
	var chosen []func(context.Context) error
	for do, is := range map[*bool]func(context.Context) error{
		&f.plan: u.Plan, &f.show: u.Show, &f.back: u.Back, &f.finish: u.Finish,
	} {
		if *do {
			chosen = append(chosen, is)
		}
	}
	switch len(chosen) {
	case 0:
		return u.Run(ctx)
	case 1:
		return chosen[0](ctx)
	}
	return errors.New("upgrade: --plan, --show, --back and --finish exclude each other")
}
