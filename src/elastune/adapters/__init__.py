"""Trainables from what other frameworks already have: one small file per framework.

Each has one factory of the same shape: `xgboost_trainable(make)`, where `make(config)` builds what is
trained, gives a class that jobs take. A framework is imported only when a trial begins.
"""
