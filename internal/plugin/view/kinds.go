package view

// The kinds that the plug-in shows.
const (
	KindGroup   = "ResourceScalingGroup"
	KindScaler  = "ElasticScaler"
	KindTidal   = "Tidal"
	KindPolicy  = "AutoscalerPolicy"
	KindService = "InferenceService"
)
