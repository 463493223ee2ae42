"""Results for other tools: tables, CSV, TensorBoard, MLflow."""
