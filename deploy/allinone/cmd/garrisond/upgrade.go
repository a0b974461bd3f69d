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
	config.Checked(fs, &f.Unit, "unit", upgrade.DefaultUnit, "the `UNIT` of systemd that runs garrisond", config.Text)
	config.Checked(fs, &f.Dir, "record", upgrade.DefaultDir, "a `DIRECTORY` of root for the record, the "+
		"backup and the program before", config.Text)
	config.Checked(fs, &f.Within, "within", 10*time.Minute, "how long a program may take until it serves",
		config.Lasting(time.Second))
	config.Checked(fs, &f.Soak, "soak", 10*time.Second, "how long it must serve then", config.Lasting(time.Second))
}

// action returns what the flags ask for.
func (f *upgradeFlags) action() (func(upgrade.Upgrader, context.Context) error, error) {
	action, asked := upgrade.Upgrader.Run, 0
	for _, c := range []struct {
		asked bool
		do    func(upgrade.Upgrader, context.Context) error
	}{
		{f.plan, upgrade.Upgrader.Plan},
		{f.show, upgrade.Upgrader.Show},
		{f.back, upgrade.Upgrader.Back},
		{f.finish, upgrade.Upgrader.Finish},
	} {
		if c.asked {
			action, asked = c.do, asked+1
		}
	}
	if asked > 1 {
		return nil, errors.New("--plan, --show, --back and --finish exclude each other")
	}
	return action, nil
}

func (f *upgradeFlags) run(ctx context.Context, data string, stdout io.Writer) error {
	do, err := f.action()
	if err != nil {
		return err
	}
	u := f.Upgrader
	u.Data, u.Log = data, stdout
	return do(u, ctx)
}
