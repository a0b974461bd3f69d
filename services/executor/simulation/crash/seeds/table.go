package main

// seed is one bug.
type seed struct {
	name  string
	edits []edit
	by    []test
}

// edit replaces text that occurs exactly once in a file below services/executor.
type edit struct{ file, from, to string }

// test catches a seed.
type test struct{ pkg, run string }

var (
	killed      = test{"internal/engine", "KilledAtAnyInstantLeaves"}
	losesPower  = test{"internal/engine", "LosesPowerAtAnyInstantLeaves"}
	killedSelf  = test{".", "ReplacesItselfKilledAtAnyInstant"}
	lostPowSelf = test{".", "ReplacesItselfLosesPowerAtAnyInstant"}
)

// seeds is every bug. A change that moves the code of an edit moves the edit with it.
var seeds = []seed{
	{"nofilesync", []edit{ // contents are not synced
		{"internal/layout/write.go", "errors.Join(err, f.Sync(), f.Close())", "errors.Join(err, f.Close())"},
		{"internal/layout/write.go", "err = tmp.Sync()", "err = error(nil)"},
		{"internal/layout/write.go", "unix.Syncfs(int(f.Fd()))", "unix.Fstat(int(f.Fd()), &unix.Stat_t{})"},
	}, []test{losesPower}},

	{"nodirsync", []edit{ // names are not synced
		{"internal/layout/write.go", "errors.Join(dir.Sync(), dir.Close())", "errors.Join(dir.Close())"},
	}, []test{losesPower, lostPowSelf}},

	{"nosyncjournal", []edit{ // an update of the journal returns before it is on the disk
		{"internal/journal/open.go", "NoFreelistSync: true}", "NoFreelistSync: true, NoSync: true}"},
	}, []test{losesPower}},

	{"actfirst", []edit{ // a step is written to the journal after it ran
		{"internal/engine/driver.go", `
	r.Step = change.Steps[at]
	if err := r.Save(); err != nil {`, `
	saved := r.Save()
	r.Step = change.Steps[at]
	if err := saved; err != nil {`},
	}, []test{killed}},

	{"ackfirst", []edit{ // the end of a change is reported before the journal has it
		{"internal/engine/report.go", `
	err = p.journal.Update(func(tx *journal.Tx) error { return errors.Join(shut(tx), say(tx)) })
`, `
	if err = p.journal.Update(say); err == nil {
		<-time.After(50 * time.Millisecond) // so that random instants hit it within minutes
		err = p.journal.Update(shut)
	}
`},
	}, []test{killed}},

	{"trustlink", []edit{ // after a crash a present link is trusted
		{"internal/steps/switch.go", `
	return layout.Link(l.Root.ImageLink(m.Digest()), l.Root.Current(r.Agent))
`, `
	current := l.Root.Current(r.Agent)
	if _, err := os.Readlink(current); err == nil && r.Resumed {
		return nil
	}
	return layout.Link(l.Root.ImageLink(m.Digest()), current)
`},
	}, []test{killed}},

	{"laterecord", []edit{ // a process is recorded only after it was started, and none without a record is looked for
		{
			"internal/supervise/process.go",
			"if err := r.write(s.Record); err != nil {", "if err := error(nil); err != nil {",
		},
		{"internal/supervise/lost.go", "lost, err := st.lostTokens(dir)", "lost, err := []string(nil), error(nil)"},
	}, []test{killed}},

	{"trusttrial", []edit{ // a trial without an outcome counts as passed
		{"internal/change/next.go", "r.To.IsSelf() && r.TrialPassed:", "r.To.IsSelf():"},
	}, []test{killedSelf}},
}
