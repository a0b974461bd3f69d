// Package forecast runs the engine of rollouts against a virtual fleet, event by event, in virtual time. It has no
// clock and no randomness but a seed, so that a world has exactly one result.
//
//	outlook, err := forecast.Runs(nil, world, 100)
//	fmt.Println(outlook.Took50, outlook.Took90, outlook.Halts)
//
// What is decided is decided by rollout.Decide, as in production. What servers do is a model: how long changes take is
// drawn from recorded durations; how often they fail, break later or go offline are rates of the world.
package forecast
