// Package rollout holds the commands about rollouts: changes that reach servers in waves.
//
//  1. The plan is the registry's answer. Nothing of it is computed here.
//  2. A rollout that was planned is done exactly so, or refused with the exit code 8.
//  3. Leaving the view never stops the rollout; how to return, to pause and to undo is printed.
package rollout
