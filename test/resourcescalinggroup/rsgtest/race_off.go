//go:build !race

package rsgtest

const raceDetector = false
