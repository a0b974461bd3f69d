package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/e2e/chaos"
)

// chaosed are the flags of chaos.
type chaosed struct {
	bin             *string
	mode, kinds     string
	rounds, servers int
	load            time.Duration
	seed            uint64
}

var errWrong = errors.New("a check failed; see above")

// chaosRounds runs rounds of random faults and prints a table of the results. The same seed leads to the same schedule.
func chaosRounds(flags *flag.FlagSet) func(context.Context) error {
	s := &chaosed{bin: binaries(flags)}
	flags.IntVar(&s.rounds, "rounds", 10, "how many rounds, in each mode")
	flags.StringVar(&s.mode, "mode", "both", "apart, one (process), or both")
	flags.StringVar(&s.kinds, "kinds", "", fmt.Sprintf("`LIST` of kinds of rounds, of %v; all by default", chaos.Kinds))
	flags.IntVar(&s.servers, "servers", 4, "how many servers stay for all rounds")
	flags.DurationVar(&s.load, "load", 15*time.Second, "how long a round publishes intents")
	flags.Uint64Var(&s.seed, "seed", rand.Uint64(), "of the schedule; random by default")
	return s.run
}

func (s *chaosed) run(ctx context.Context) error {
	kinds, err := chaos.ParseKinds(s.kinds)
	if err != nil {
		return err
	}
	modes := map[string][]bool{"apart": {true}, "one": {false}, "both": {true, false}}[s.mode]
	if modes == nil || s.rounds < 1 || s.servers < 1 || s.load < time.Second {
		return errors.New("want --mode apart, one or both, and at least one round, one server and one second of load")
	}
	fmt.Printf("seed %d\n", s.seed)
	for _, apart := range modes {
		err = errors.Join(err, s.runMode(ctx, kinds, apart))
	}
	return err
}

// runMode runs all rounds of one mode in a directory of its own, which stays when something failed.
func (s *chaosed) runMode(ctx context.Context, kinds []chaos.Kind, apart bool) (err error) {
	dir, err := os.MkdirTemp("", "garrison-chaos-")
	if err != nil {
		return err
	}
	w, err := chaos.New(ctx, chaos.Options{Bin: *s.bin, Dir: dir, Apart: apart, Servers: s.servers, Log: os.Stderr})
	defer func() {
		if w != nil {
			err = errors.Join(err, w.Close())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "logs are in", filepath.Join(dir, "logs"))
			return
		}
		err = os.RemoveAll(dir)
	}()
	if err != nil {
		return err
	}
	var results []chaos.Result
	for _, r := range chaos.Schedule(s.seed, s.rounds, s.load, kinds, apart) {
		fmt.Fprintf(os.Stderr, "round %d: %s\n", r.Number, r.Kind)
		res, e := w.Run(ctx, r)
		results = append(results, res)
		for _, wrong := range res.Wrong {
			fmt.Fprintf(os.Stderr, "  WRONG: %s\n", wrong)
		}
		if err = e; err != nil {
			break
		}
	}
	where := "services in one process"
	if apart {
		where = "services apart, two registries and two dispatchers"
	}
	if !chaos.Print(os.Stdout, where, results) {
		err = errors.Join(err, errWrong)
	}
	return err
}
